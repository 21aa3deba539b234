// Large collectives: chunks through bounded buffers that stay in the processor's caches. Each rank goes on as far as the
// others' counters allow, so a rank that has a core does many chunks before it gives it up.
//
// A reduction is a chain. The buffers are one ring of partial results: rank 0 puts in its elements, every further rank
// adds its own in its turn (rank 0 first, then 1, 2, ...: the order of summation never changes), the last one puts in the
// result, and consumers copy that out. So the data of a chunk passes through one slot instead of one for each rank.
//
// In a move each publisher has a ring of its own, from which the consumers copy.

#include <algorithm>
#include <cstring>

#include "plane.h"

namespace hccl {
namespace {

constexpr std::uint64_t LINE = 64;
constexpr std::uint64_t STREAMED = 8 << 20;  // results of more bytes than this do not fit into the caches anyway

std::uint64_t chunks_of(std::uint64_t bytes, std::uint64_t step) { return (bytes + step - 1) / step; }

// What a chunk holds: bytes of the source for a reduction, of each block for a move.
std::uint64_t chunk_bytes(const Plane& plane) {
    const Plan& plan = plane.plan;
    std::uint64_t slot = plane.progress.slot_bytes;
    if (plan.kind == REDUCE) {
        const Reduction& loops = reduction(plan.type, plan.operation);
        return slot / loops.accumulator_bytes * loops.bytes;
    }
    return plan.is_distinct ? slot / plane.ranks / LINE * LINE : slot;
}

// -- reductions ------------------------------------------------------------------------------------------------

struct Part {
    const Segment* segment;
    std::uint64_t low, bytes;
};

Part part_of(const Plane& plane, std::uint64_t chunk) {
    std::uint64_t step = chunk_bytes(plane);
    const Segment* segment = plane.plan.segments;
    for (;; ++segment) {
        std::uint64_t count = chunks_of(segment->bytes, step);
        if (chunk < count) break;
        chunk -= count;
    }
    std::uint64_t low = chunk * step;
    return {segment, low, std::min(step, segment->bytes - low)};
}

// The first chunk from `chunk` on that a rank takes the result of.
std::uint64_t next_consumed(const Plane& plane, int rank, std::uint64_t chunk) {
    std::uint64_t first = 0, step = chunk_bytes(plane);
    const Plan& plan = plane.plan;
    for (int k = 0; k < plan.segment_count; ++k) {
        std::uint64_t end = first + chunks_of(plan.segments[k].bytes, step);
        if (chunk < end && includes(static_cast<int>(plan.segments[k].consumer), rank)) return std::max(first, chunk);
        first = end;
    }
    return first;
}

void add(Plane& plane, std::uint8_t* slot, std::uint64_t chunk) {
    const Plan& plan = plane.plan;
    const Reduction& loops = reduction(plan.type, plan.operation);
    Part part = part_of(plane, chunk);
    const std::uint8_t* source = part.segment->source + part.low;
    std::uint64_t count = part.bytes / loops.bytes;
    if (plane.own == 0) {
        loops.first(slot, source, count);
    } else if (plane.own < plane.ranks - 1) {
        loops.next(slot, source, count);
    } else {
        bool takes = includes(static_cast<int>(part.segment->consumer), plane.own);
        loops.last(slot, takes ? part.segment->target + part.low : nullptr, slot, source, count);
    }
}

// -- one chunk -------------------------------------------------------------------------------------------------

std::uint8_t* slot_of(const Plane& plane, int publisher, std::uint64_t chunk) {
    const Progress& progress = plane.progress;
    bool has_rings = plane.plan.kind == MOVE && plane.plan.publisher == ALL;
    std::uint64_t ring = has_rings ? publisher : 0;
    return plane.large + (ring * progress.generations + (progress.base + chunk) % progress.generations) * progress.slot_bytes;
}

void take(std::uint8_t* target, const std::uint8_t* source, std::uint64_t bytes, bool is_large) {
    if (is_large) kernels().stream(target, source, bytes);
    else std::memcpy(target, source, bytes);
}

void publish(Plane& plane, std::uint64_t chunk) {
    const Plan& plan = plane.plan;
    std::uint8_t* slot = slot_of(plane, plane.own, chunk);
    if (plan.kind == REDUCE) {
        add(plane, slot, chunk);
        return;
    }
    std::uint64_t step = chunk_bytes(plane), low = chunk * step;
    for (int k = 0; k < (plan.is_distinct ? plane.ranks : 1); ++k) {
        const Block& block = plan.inputs[k];
        bool is_own = plan.is_distinct && k == plane.own;
        if (!is_own && low < block.bytes)
            std::memcpy(slot + (plan.is_distinct ? k * step : 0), block.data + low, std::min(step, block.bytes - low));
    }
}

void consume(Plane& plane, std::uint64_t chunk) {
    const Plan& plan = plane.plan;
    if (plan.kind == REDUCE) {
        if (plane.own == plane.ranks - 1) return;  // has it already
        Part part = part_of(plane, chunk);
        take(part.segment->target + part.low, slot_of(plane, 0, chunk), part.bytes, part.segment->bytes > STREAMED);
        return;
    }
    std::uint64_t step = chunk_bytes(plane), low = chunk * step;
    for (int turn = 1; turn < plane.ranks; ++turn) {
        int rank = (plane.own + turn) % plane.ranks;
        const Block& block = plan.outputs[rank];
        if (!includes(plan.publisher, rank) || low >= block.bytes) continue;
        const std::uint8_t* piece = slot_of(plane, rank, chunk) + (plan.is_distinct ? plane.own * step : 0);
        take(block.data + low, piece, std::min(step, block.bytes - low), block.bytes > STREAMED / plane.ranks);
    }
}

// -- who may go on ---------------------------------------------------------------------------------------------

bool publishes(const Plan& plan, int rank) { return plan.kind == REDUCE || includes(plan.publisher, rank); }

// Does a rank take anything out of the buffers of others?
bool consumes(const Plan& plan, int rank) {
    return plan.kind == REDUCE || (includes(plan.consumer, rank) && plan.publisher != rank);
}

std::uint64_t relative(const Plane& plane, const Signal& counter) {
    std::uint64_t value = counter.read(), base = plane.progress.base;
    return value > base ? value - base : 0;
}

bool can_publish(const Plane& plane, int rank, std::uint64_t chunk) {
    if (chunk >= plane.progress.chunks || !publishes(plane.plan, rank)) return false;
    if (plane.plan.kind == REDUCE && rank > 0) return relative(plane, plane.published(rank - 1)) > chunk;
    if (chunk < plane.progress.generations) return true;
    std::uint64_t needed = chunk - plane.progress.generations + 1;
    for (int other = 0; other < plane.ranks; ++other)
        if ((other != rank || plane.plan.kind == REDUCE) && consumes(plane.plan, other) &&
            relative(plane, plane.consumed(other)) < needed)
            return false;
    return true;
}

bool can_consume(const Plane& plane, int rank, std::uint64_t chunk) {
    if (chunk >= plane.progress.chunks || !consumes(plane.plan, rank)) return false;
    if (plane.plan.kind == REDUCE) return relative(plane, plane.published(plane.ranks - 1)) > chunk;
    for (int other = 0; other < plane.ranks; ++other)
        if (other != rank && publishes(plane.plan, other) && relative(plane, plane.published(other)) <= chunk) return false;
    return true;
}

// Whoever waits for what this rank has published or consumed is woken every few chunks, and whenever this rank has nothing
// more to do: with more ranks than cores, one that is woken for each chunk does little before it sleeps again.
constexpr std::uint64_t CHUNKS_A_RING = 16;

void ring(Plane& plane) {
    Progress& progress = plane.progress;
    bool reduces = plane.plan.kind == REDUCE;
    int last = plane.ranks - 1;
    for (int rank = 0; rank < plane.ranks; ++rank) {
        if (rank == plane.own) continue;
        bool waits_for_published = !reduces || (plane.own == last ? true : rank == plane.own + 1);
        bool waits_for_consumed = !reduces || rank == 0;
        if ((progress.is_published_told && waits_for_published) || (progress.is_consumed_told && waits_for_consumed))
            plane.bell(rank).ring();
    }
    progress.is_published_told = progress.is_consumed_told = 0;
    progress.posts = 0;
}

void post(Plane& plane, Signal& counter, std::uint64_t chunks) {
    counter.post(plane.progress.base + chunks);
    (&counter == &plane.published(plane.own) ? plane.progress.is_published_told : plane.progress.is_consumed_told) = 1;
    if (++plane.progress.posts >= CHUNKS_A_RING) ring(plane);
}

}  // namespace

void begin_pipeline(Plane& plane) {
    const Plan& plan = plane.plan;
    Progress& progress = plane.progress;
    std::uint64_t rings = plan.kind == MOVE && plan.publisher == ALL ? plane.ranks : 1;
    std::uint64_t room = plane.large_bytes / rings, least = LINE * plane.ranks;
    progress.slot_bytes = std::max(std::min(room / 4 / least * least, plane.slot_limit), least);
    progress.generations = room / progress.slot_bytes;
    progress.published = progress.consumed = progress.posts = 0;
    progress.is_published_told = progress.is_consumed_told = 0;
    std::uint64_t step = chunk_bytes(plane);
    if (plan.kind == REDUCE) {
        progress.chunks = 0;
        for (int k = 0; k < plan.segment_count; ++k) progress.chunks += chunks_of(plan.segments[k].bytes, step);
    } else {
        progress.chunks = chunks_of(plan.longest, step);
        const Block& from = plan.is_distinct ? plan.inputs[plane.own] : plan.inputs[0];
        const Block& to = plan.outputs[plane.own];
        if (publishes(plan, plane.own) && includes(plan.consumer, plane.own) && to.bytes && from.data != to.data)
            std::memmove(to.data, from.data, to.bytes);
    }
    if (!publishes(plan, plane.own)) {
        progress.published = progress.chunks;
        post(plane, plane.published(plane.own), progress.published);
    }
    progress.consumed = plan.kind == REDUCE        ? next_consumed(plane, plane.own, 0)
                        : consumes(plan, plane.own) ? 0
                                                    : progress.chunks;
    if (progress.consumed) post(plane, plane.consumed(plane.own), progress.consumed);
}

Status run_pipeline(Plane& plane) {
    Progress& progress = plane.progress;
    while (progress.published < progress.chunks || progress.consumed < progress.chunks) {
        if (can_publish(plane, plane.own, progress.published)) {
            publish(plane, progress.published);
            post(plane, plane.published(plane.own), ++progress.published);
        } else if (can_consume(plane, plane.own, progress.consumed)) {
            consume(plane, progress.consumed++);
            if (plane.plan.kind == REDUCE) progress.consumed = next_consumed(plane, plane.own, progress.consumed);
            post(plane, plane.consumed(plane.own), progress.consumed);
        } else {
            ring(plane);
            Status status = wait_until(plane.bell(plane.own), plane.looks, [&] {
                return can_publish(plane, plane.own, progress.published) ||
                       can_consume(plane, plane.own, progress.consumed);
            });
            if (status != DONE) return status;
        }
    }
    ring(plane);
    progress.base += progress.chunks;
    return DONE;
}

// Has a rank something to do that it has not done? While this rank waits, such ranks are those that it waits for.
bool can_advance(const Plane& plane, int rank) {
    return can_publish(plane, rank, relative(plane, plane.published(rank))) ||
           can_consume(plane, rank, relative(plane, plane.consumed(rank)));
}

}  // namespace hccl

using namespace hccl;

// The work of `rank` in an all-reduce, chunk by chunk, with nobody to wait for: what a measurement compares with. `ring` is
// buffers of `generations` slots of `slot_bytes` for this rank alone; `rank` and `ranks` say which pass it does.
HCCL_EXPORT void hccl_passes(int type, int rank, void* ring, std::size_t slot_bytes, std::size_t generations, void* data,
                             std::size_t bytes, int ranks) {
    const Reduction& loops = reduction(type, SUM);
    std::size_t step = slot_bytes / loops.accumulator_bytes * loops.bytes;
    for (std::size_t round = 0; round < bytes; round += step * generations) {
        std::size_t end = std::min(bytes, round + step * generations);
        for (int pass = 0; pass < (rank == ranks - 1 ? 1 : 2); ++pass)
            for (std::size_t low = round; low < end; low += step) {
                auto slot = static_cast<std::uint8_t*>(ring) + (low - round) / step * slot_bytes;
                auto own = static_cast<std::uint8_t*>(data) + low;
                std::size_t part = std::min(step, end - low), count = part / loops.bytes;
                if (pass == 1) take(own, slot, part, bytes > STREAMED);
                else if (rank == 0) loops.first(slot, own, count);
                else if (rank < ranks - 1) loops.next(slot, own, count);
                else loops.last(slot, own, slot, own, count);
            }
    }
}
