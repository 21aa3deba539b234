// The loops over data: copies and reductions, in one version per instruction set, chosen when the library is loaded.
#pragma once

#include <cstddef>

#define HCCL_EXPORT extern "C" __attribute__((visibility("default")))

namespace hccl {

// Codes shared with `native.py`.
enum Type { U8, I8, I32, I64, F16, BF16, F32, F64, TYPES };
enum Operation { SUM, MIN, MAX, PRODUCT, OPERATIONS };

// A reduction keeps its partial results in an accumulator: float for the 16-bit floats, else the type itself. All take
// `count` elements and go from left to right, so an accumulator may be narrowed into its own memory.
struct Reduction {
    std::size_t bytes;              // of an element
    std::size_t accumulator_bytes;  // of an element's accumulator
    void (*first)(void* accumulator, const void* source, std::size_t count);
    void (*next)(void* accumulator, const void* source, std::size_t count);
    // The last source; the result goes to `result` and, where it is not null, to `copy`. Both may be the accumulator or
    // the source.
    void (*last)(void* result, void* copy, const void* accumulator, const void* source, std::size_t count);
    // All at once, in the order of the sources; `result` may be one of them.
    void (*all)(void* result, const void* const* sources, std::size_t ranks, std::size_t count);
};

struct Kernels {
    Reduction reductions[TYPES][OPERATIONS];
    // A copy that does not keep the target in the caches.
    void (*stream)(void* target, const void* source, std::size_t bytes);
};

const Kernels& kernels();
inline const Reduction& reduction(int type, int operation) { return kernels().reductions[type][operation]; }

}  // namespace hccl
