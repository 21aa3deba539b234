// Which version of the kernels this processor runs. A cache folder may be shared by machines, so the library holds all.

#include "kernels.h"

namespace hccl {

extern const Kernels kernels_base;
#if defined(__x86_64__)
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif

namespace {

const Kernels& choose() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return kernels_avx512;
    // Every processor with AVX2 converts 16-bit floats (F16C).
    if (__builtin_cpu_supports("avx2")) return kernels_avx2;
#endif
    return kernels_base;
}

}  // namespace

const Kernels& kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

}  // namespace hccl


// Reduce `ranks` sources of `count` elements into `result`, in their order.
HCCL_EXPORT void hccl_reduce(int type, int operation, void* result, const void* const* sources, std::size_t ranks,
                 std::size_t count) {
    hccl::reduction(type, operation).all(result, sources, ranks, count);
}

// For tests: use the version for another instruction set? 0 base, 1 avx2, 2 avx512; -1 where there is no such version.
HCCL_EXPORT int hccl_reduce_with(int level, int type, int operation, void* result, const void* const* sources, std::size_t ranks,
                     std::size_t count) {
    const hccl::Kernels* table = level == 0 ? &hccl::kernels_base : nullptr;
#if defined(__x86_64__)
    if (level == 1 && __builtin_cpu_supports("avx2")) table = &hccl::kernels_avx2;
    if (level == 2 && &hccl::kernels() == &hccl::kernels_avx512) table = &hccl::kernels_avx512;
#endif
    if (table == nullptr) return -1;
    table->reductions[type][operation].all(result, sources, ranks, count);
    return 0;
}
