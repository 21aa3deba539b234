// Collectives whose data fits beside the headers: everybody publishes, one barrier, everybody takes what it needs.

#include <cstring>

#include "plane.h"

namespace hccl {
namespace {

std::uint64_t uneven_bytes(const Plane& plane, int rank) {
    std::uint64_t sum = 0;
    for (int target = 0; target < plane.ranks; ++target) sum += table_entry(plane, rank, target);
    return sum * plane.plan.element_bytes;
}

void copy(std::uint8_t* target, const std::uint8_t* source, std::uint64_t bytes) {
    if (bytes && target != source) std::memmove(target, source, bytes);
}

}  // namespace

// A rank's table, in its header: lengths in elements of its blocks to each rank, then from each rank.
std::int64_t table_entry(const Plane& plane, int rank, int index) {
    std::int64_t length;
    std::memcpy(&length, plane.board(plane.shown, rank) + plane.table_offset + 8 * index, 8);
    return length;
}

bool fits_small(const Plane& plane) {
    const Plan& plan = plane.plan;
    if (plan.kind == REDUCE) {
        std::uint64_t sum = 0;
        for (int k = 0; k < plan.segment_count; ++k) sum += plan.segments[k].bytes;
        return sum <= plane.small_bytes;
    }
    if (plan.is_uneven) return uneven_bytes(plane, plane.own) <= plane.small_bytes;
    return plan.longest * (plan.is_distinct ? plane.ranks : 1) <= plane.small_bytes;
}

bool do_all_fit_small(const Plane& plane) {
    if (!plane.plan.is_uneven) return fits_small(plane);
    for (int rank = 0; rank < plane.ranks; ++rank)
        if (uneven_bytes(plane, rank) > plane.small_bytes) return false;
    return true;
}

void publish_small(Plane& plane) {
    const Plan& plan = plane.plan;
    std::uint8_t* slot = plane.small_slot(plane.own);
    if (plan.kind == REDUCE) {
        for (int k = 0; k < plan.segment_count; slot += plan.segments[k].bytes, ++k)
            copy(slot, plan.segments[k].source, plan.segments[k].bytes);
        return;
    }
    if (plan.kind == NOTHING || !includes(plan.publisher, plane.own)) return;
    for (int k = 0; k < (plan.is_distinct ? plane.ranks : 1); ++k) {
        copy(slot, plan.inputs[k].data, plan.inputs[k].bytes);
        slot += plan.is_uneven ? plan.inputs[k].bytes : plan.longest;
    }
}

void collect_small(Plane& plane) {
    const Plan& plan = plane.plan;
    if (plan.kind == REDUCE) {
        const Reduction& loops = reduction(plan.type, plan.operation);
        std::uint64_t offset = 0;
        const void* sources[plane.ranks];
        for (int k = 0; k < plan.segment_count; offset += plan.segments[k].bytes, ++k) {
            const Segment& segment = plan.segments[k];
            if (!includes(static_cast<int>(segment.consumer), plane.own)) continue;
            for (int rank = 0; rank < plane.ranks; ++rank) sources[rank] = plane.small_slot(rank) + offset;
            loops.all(segment.target, sources, plane.ranks, segment.bytes / loops.bytes);
        }
        return;
    }
    if (!includes(plan.consumer, plane.own)) return;
    for (int rank = 0; rank < plane.ranks; ++rank) {
        if (!includes(plan.publisher, rank) || plan.outputs[rank].data == nullptr) continue;
        const std::uint8_t* piece = plane.small_slot(rank);
        if (plan.is_uneven)
            for (int target = 0; target < plane.own; ++target) piece += table_entry(plane, rank, target) * plan.element_bytes;
        else if (plan.is_distinct)
            piece += plan.longest * plane.own;
        copy(plan.outputs[rank].data, piece, plan.outputs[rank].bytes);
    }
}

}  // namespace hccl
