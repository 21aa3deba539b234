// The entry points that `native.py` calls: one collective at a time, in steps. Each returns a Status; after DELAYED the
// caller sees whether the missing ranks can still be expected, and calls `hccl_continue`; likewise after NEEDS_BUFFERS,
// once there are some.

#include "plane.h"

#include <algorithm>
#include <cstring>

namespace hccl {
namespace {

enum Phase : std::int32_t { IDLE, AGREEING, GATHERING, STARTING, MOVING };

void arrive(Plane& plane, Phase phase) {
    plane.phase = phase;
    if (plane.plan.kind != NOTHING && fits_small(plane)) publish_small(plane);
    plane.arrived(plane.own).post(plane.steps);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // before looking at the others
}

bool have_all_arrived(const Plane& plane) {
    for (int rank = 0; rank < plane.ranks; ++rank)
        if (plane.arrived(rank).read() < plane.steps) return false;
    return true;
}

// The rank that finds that it came last says so, and the others watch one word. Two may both find so: no harm.
Status wait_for_all(Plane& plane) {
    if (plane.release().read() >= plane.steps) return DONE;
    if (have_all_arrived(plane)) {
        plane.release().post(plane.steps);
        plane.release().ring();
        return DONE;
    }
    return wait_until(plane.release(), plane.looks, [&] { return plane.release().read() >= plane.steps; });
}

bool do_headers_agree(const Plane& plane) {
    const std::uint8_t* own = plane.board(plane.shown, plane.own);
    for (int rank = 0; rank < plane.ranks; ++rank)
        if (std::memcmp(own, plane.board(plane.shown, rank), plane.key_bytes) != 0) return false;
    if (plane.plan.is_uneven)
        for (int source = 0; source < plane.ranks; ++source)
            for (int target = 0; target < plane.ranks; ++target)
                if (table_entry(plane, source, target) != table_entry(plane, target, plane.ranks + source)) return false;
    return true;
}

void read_headers(Plane& plane) {
    std::uint64_t bytes = plane.shape_offset - plane.arrival_offset;
    for (int rank = 0; rank < plane.ranks; ++rank)
        std::memcpy(plane.arrivals + rank * bytes, plane.board(plane.shown, rank) + plane.arrival_offset, bytes);
    if (!plane.plan.is_uneven) return;
    std::int64_t longest = 0;
    for (int source = 0; source < plane.ranks; ++source)
        for (int target = 0; target < plane.ranks; ++target)
            longest = std::max(longest, table_entry(plane, source, target));
    plane.plan.longest = longest * plane.plan.element_bytes;
}

Status advance(Plane& plane) {
    if (plane.phase == AGREEING || plane.phase == GATHERING) {
        Status status = wait_for_all(plane);
        if (status != DONE) return status;
        bool has_header = plane.phase == AGREEING;
        plane.phase = IDLE;
        if (has_header) {
            if (!do_headers_agree(plane)) return DISAGREED;
            read_headers(plane);
        }
        if (plane.plan.kind == NOTHING) return DONE;
        if (do_all_fit_small(plane)) {
            collect_small(plane);
            return DONE;
        }
        plane.phase = STARTING;
    }
    if (plane.phase == STARTING) {
        if (plane.large == nullptr) return NEEDS_BUFFERS;
        begin_pipeline(plane);
        plane.phase = MOVING;
    }
    if (plane.phase == MOVING) {
        Status status = run_pipeline(plane);
        if (status != DONE) return status;
        plane.phase = IDLE;
    }
    return DONE;
}

}  // namespace
}  // namespace hccl

using namespace hccl;


// Bytes of a group's signals.
HCCL_EXPORT std::size_t hccl_signals_bytes(int ranks) { return (SHARED_SIGNALS + 3 * ranks) * sizeof(Signal); }

// Show a header, wait for everybody's, compare them, and move the data of the plan.
HCCL_EXPORT int hccl_run(Plane* plane, std::uint64_t sequence, const void* key, const void* shape, const void* arrival,
             const void* table, std::size_t table_bytes) {
    std::uint8_t* board = plane->board(++plane->shown, plane->own);
    std::memcpy(board, &sequence, 8);
    std::memcpy(board + 8, key, plane->key_bytes - 8);
    std::memcpy(board + plane->arrival_offset, arrival, plane->shape_offset - plane->arrival_offset);
    std::memcpy(board + plane->shape_offset, shape, plane->table_offset - plane->shape_offset);
    if (table_bytes) std::memcpy(board + plane->table_offset, table, table_bytes);
    ++plane->steps;
    arrive(*plane, AGREEING);
    return advance(*plane);
}

// Move the data of the plan, on which all agree; it is not uneven.
HCCL_EXPORT int hccl_move(Plane* plane) {
    ++plane->steps;
    arrive(*plane, GATHERING);
    return advance(*plane);
}

HCCL_EXPORT int hccl_continue(Plane* plane) { return advance(*plane); }

// The ranks that this one waits for; returns how many.
HCCL_EXPORT int hccl_missing(const Plane* plane, std::int32_t* missing) {
    int count = 0;
    for (int rank = 0; rank < plane->ranks; ++rank) {
        if (rank == plane->own) continue;
        bool is_missing = plane->phase == MOVING ? can_advance(*plane, rank)
                                                 : plane->arrived(rank).read() < plane->steps;
        if (is_missing) missing[count++] = rank;
    }
    return count;
}

// Signals of a channel: wait until one is at least `target`; raise one.
HCCL_EXPORT int hccl_wait(Signal* signal, std::uint64_t target, int looks) {
    return wait_until(*signal, looks, [&] { return signal->read() >= target; });
}

HCCL_EXPORT void hccl_post(Signal* signal, std::uint64_t value) {
    signal->post(value);
    signal->ring();
}
