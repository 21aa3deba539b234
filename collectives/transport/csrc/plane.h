// What one rank knows of its group's shared memory and of the collective under way. `native.py` fills these.
#pragma once

#include <cstdint>

#include "kernels.h"
#include "waiting.h"

namespace hccl {

constexpr int ALL = -1;
constexpr int SMALL_GENERATIONS = 2, BOARD_GENERATIONS = 2, SHARED_SIGNALS = 1;

// What moves in a collective.
enum Kind : std::int32_t {
    NOTHING = 0,
    REDUCE = 1,  // segment k of everybody's input is reduced for its consumer
    MOVE = 2,    // blocks go from publishers to consumers as they are
};

struct Segment {
    std::uint8_t* source;    // this rank's input
    std::uint8_t* target;    // its result, on consumers
    std::uint64_t bytes;     // of the source
    std::int64_t consumer;   // a rank, or ALL
};

struct Block {
    std::uint8_t* data;
    std::uint64_t bytes;
};

struct Plan {
    std::int32_t kind;
    std::int32_t type, operation;  // of REDUCE
    std::int32_t publisher;        // of MOVE: a rank, or ALL
    std::int32_t consumer;         // of MOVE: a rank, or ALL
    std::int32_t is_distinct;      // of MOVE: every consumer gets a block of its own
    std::int32_t is_uneven;        // of MOVE: blocks differ in length, as the tables in the headers say
    std::int32_t segment_count;    // of REDUCE
    std::uint64_t element_bytes;   // of an uneven MOVE
    std::uint64_t longest;         // of MOVE: bytes of the longest block; found out where uneven
    Segment* segments;             // of REDUCE
    Block* inputs;                 // of MOVE: by consumer, if distinct, else one
    Block* outputs;                // of MOVE: by publisher
};

// How the large buffers are divided for the plan under way, and how far this rank is.
struct Progress {
    std::uint64_t generations, slot_bytes;
    std::uint64_t chunks, published, consumed;  // chunks of this collective
    std::uint64_t base;                         // chunks of all earlier ones
    std::uint64_t posts;                        // since the last time that others were woken
    std::int32_t is_published_told, is_consumed_told;  // what of it they may wait for
};

struct Plane {
    std::int32_t own, ranks, looks, phase;
    std::uint8_t* signals;  // release: the step that all have reached; then for each rank: steps that it has reached,
                            // chunks that it has published, chunks that it has consumed
    std::uint8_t* boards;   // [BOARD_GENERATIONS][ranks][board_bytes]
    std::uint8_t* small;    // [SMALL_GENERATIONS][ranks][small_bytes]
    std::uint8_t* large;    // large_bytes, or null
    std::uint64_t board_bytes, small_bytes, large_bytes, slot_limit;
    std::uint64_t key_bytes, arrival_offset, shape_offset, table_offset;
    std::uint64_t steps, shown;  // barriers, headers
    std::uint8_t* arrivals;      // [ranks][shape_offset - arrival_offset], of the last headers
    Plan plan;
    Progress progress;

    Signal& release() const { return signal(0, 0); }
    Signal& arrived(int rank) const { return signal(1, rank); }
    Signal& published(int rank) const { return signal(2, rank); }
    Signal& consumed(int rank) const { return signal(3, rank); }
    Signal& bell(int rank) const { return consumed(rank); }  // on which that rank sleeps in the pipeline
    Signal& signal(int row, int column) const {
        return reinterpret_cast<Signal*>(signals)[row == 0 ? column : SHARED_SIGNALS + (row - 1) * ranks + column];
    }
    std::uint8_t* board(std::uint64_t generation, int rank) const {
        return boards + (generation % BOARD_GENERATIONS * ranks + rank) * board_bytes;
    }
    std::uint8_t* small_slot(int rank) const {
        return small + (steps % SMALL_GENERATIONS * ranks + rank) * small_bytes;
    }
};

inline bool includes(int who, int rank) { return who == ALL || who == rank; }

// small.cpp
bool fits_small(const Plane& plane);  // an uneven move: as far as this rank knows before the headers are there
bool do_all_fit_small(const Plane& plane);
std::int64_t table_entry(const Plane& plane, int rank, int index);
void publish_small(Plane& plane);
void collect_small(Plane& plane);
// pipeline.cpp
void begin_pipeline(Plane& plane);
Status run_pipeline(Plane& plane);
bool can_advance(const Plane& plane, int rank);

}  // namespace hccl
