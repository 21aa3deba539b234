// Compiled once per instruction set, with HCCL_LEVEL as the name of the table. Only plain loops, which the compiler
// vectorises, and nothing inline from the standard library: such a function could be kept by the linker in the version
// of a processor that is not there.

#include "kernels.h"

#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace hccl {
namespace {

constexpr std::size_t TILE = 1024;  // elements that stay in the first-level cache

// -- types -----------------------------------------------------------------------------------------------------

struct Half { std::uint16_t bits; };
struct Brain { std::uint16_t bits; };

template <class T> struct Accumulator { using type = T; };
template <> struct Accumulator<Half> { using type = float; };
template <> struct Accumulator<Brain> { using type = float; };

std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

float float_of(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// Round to nearest, ties to even; every NaN becomes the quiet one.
std::uint16_t to_brain(float value) {
    std::uint32_t bits = bits_of(value);
    std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : static_cast<std::uint16_t>(rounded);
}

void widen(float* target, const Brain* source, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) target[i] = float_of(static_cast<std::uint32_t>(source[i].bits) << 16);
}

void narrow(Brain* target, const float* source, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) target[i].bits = to_brain(source[i]);
}

#if defined(__aarch64__)

void widen(float* target, const Half* source, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        __fp16 value;
        std::memcpy(&value, &source[i], 2);
        target[i] = value;
    }
}

void narrow(Half* target, const float* source, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        __fp16 value = static_cast<__fp16>(source[i]);
        std::memcpy(&target[i], &value, 2);
    }
}

#else

float from_half(std::uint16_t half) {
    std::uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000 : 0));
    if (rest >= 0x400) return float_of(sign | ((rest << 13) + (112u << 23)));
    float value = static_cast<float>(rest) * (1.0f / (1 << 24));  // subnormal: exact
    return sign ? -value : value;
}

std::uint16_t to_half(float value) {
    std::uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7c00);
    if (rest < 0x38800000) {  // below the normal range: the addition rounds at the last subnormal bit
        std::uint32_t rounded = bits_of(float_of(rest) + 0.5f) - 0x3f000000;
        return static_cast<std::uint16_t>(sign | rounded);
    }
    std::uint32_t rounded = (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
    return static_cast<std::uint16_t>(sign | rounded);
}

void widen(float* target, const Half* source, std::size_t count) {
    std::size_t i = 0;
#if defined(__AVX2__) && defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
        __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
        _mm256_storeu_ps(target + i, _mm256_cvtph_ps(half));
    }
#endif
    for (; i < count; ++i) target[i] = from_half(source[i].bits);
}

void narrow(Half* target, const float* source, std::size_t count) {
    std::size_t i = 0;
#if defined(__AVX2__) && defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
        __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i), half);
    }
#endif
    for (; i < count; ++i) target[i].bits = to_half(source[i]);
}

#endif

// -- operations ------------------------------------------------------------------------------------------------

// Integers wrap around; minimum and maximum of a NaN are NaN, and of equals the second.
template <class T> struct Wrapping { using type = T; };
template <> struct Wrapping<std::int8_t> { using type = std::uint8_t; };
template <> struct Wrapping<std::int32_t> { using type = std::uint32_t; };
template <> struct Wrapping<std::int64_t> { using type = std::uint64_t; };

template <class T> struct Sum {
    using W = typename Wrapping<T>::type;
    static T of(T a, T b) { return static_cast<T>(static_cast<W>(a) + static_cast<W>(b)); }
};
template <class T> struct Product {
    using W = typename Wrapping<T>::type;
    static T of(T a, T b) { return static_cast<T>(static_cast<W>(a) * static_cast<W>(b)); }
};
template <class T> struct Minimum {
    static T of(T a, T b) { return (a < b) | (a != a) ? a : b; }
};
template <class T> struct Maximum {
    static T of(T a, T b) { return (a > b) | (a != a) ? a : b; }
};

// -- loops -----------------------------------------------------------------------------------------------------

template <class Op, class A> void fold(A* accumulator, const A* source, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) accumulator[i] = Op::of(accumulator[i], source[i]);
}

template <class Op, class A> void fold_into(A* target, const A* left, const A* right, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) target[i] = Op::of(left[i], right[i]);
}

std::size_t tile(std::size_t done, std::size_t count) { return count - done < TILE ? count - done : TILE; }

// Elements that are their own accumulators.
template <class T, class Op> struct Plain {
    static void first(void* accumulator, const void* source, std::size_t count) {
        std::memcpy(accumulator, source, count * sizeof(T));
    }
    static void next(void* accumulator, const void* source, std::size_t count) {
        fold<Op>(static_cast<T*>(accumulator), static_cast<const T*>(source), count);
    }
    static void last(void* result, void* copy, const void* accumulator, const void* source, std::size_t count) {
        auto left = static_cast<const T*>(accumulator), right = static_cast<const T*>(source);
        for (std::size_t done = 0; done < count; done += TILE) {
            std::size_t n = tile(done, count);
            fold_into<Op>(static_cast<T*>(result) + done, left + done, right + done, n);
            if (copy) std::memcpy(static_cast<T*>(copy) + done, static_cast<T*>(result) + done, n * sizeof(T));
        }
    }
    static void all(void* result, const void* const* sources, std::size_t ranks, std::size_t count) {
        alignas(64) T sums[TILE];
        for (std::size_t done = 0; done < count; done += TILE) {
            std::size_t n = tile(done, count);
            std::memcpy(sums, static_cast<const T*>(sources[0]) + done, n * sizeof(T));
            for (std::size_t rank = 1; rank < ranks; ++rank)
                fold<Op>(sums, static_cast<const T*>(sources[rank]) + done, n);
            std::memcpy(static_cast<T*>(result) + done, sums, n * sizeof(T));
        }
    }
};

// Elements that are summed in float and rounded once.
template <class T, class Op> struct Wide {
    static void first(void* accumulator, const void* source, std::size_t count) {
        widen(static_cast<float*>(accumulator), static_cast<const T*>(source), count);
    }
    static void next(void* accumulator, const void* source, std::size_t count) {
        alignas(64) float values[TILE];
        for (std::size_t done = 0; done < count; done += TILE) {
            std::size_t n = tile(done, count);
            widen(values, static_cast<const T*>(source) + done, n);
            fold<Op>(static_cast<float*>(accumulator) + done, values, n);
        }
    }
    static void last(void* result, void* copy, const void* accumulator, const void* source, std::size_t count) {
        alignas(64) float values[TILE];
        for (std::size_t done = 0; done < count; done += TILE) {
            std::size_t n = tile(done, count);
            widen(values, static_cast<const T*>(source) + done, n);
            fold_into<Op>(values, static_cast<const float*>(accumulator) + done, values, n);
            narrow(static_cast<T*>(result) + done, values, n);
            if (copy) std::memcpy(static_cast<T*>(copy) + done, static_cast<T*>(result) + done, n * sizeof(T));
        }
    }
    static void all(void* result, const void* const* sources, std::size_t ranks, std::size_t count) {
        alignas(64) float sums[TILE];
        for (std::size_t done = 0; done < count; done += TILE) {
            std::size_t n = tile(done, count);
            widen(sums, static_cast<const T*>(sources[0]) + done, n);
            for (std::size_t rank = 1; rank < ranks; ++rank) {
                alignas(64) float values[TILE];
                widen(values, static_cast<const T*>(sources[rank]) + done, n);
                fold<Op>(sums, values, n);
            }
            narrow(static_cast<T*>(result) + done, sums, n);
        }
    }
};

void stream(void* target, const void* source, std::size_t bytes) {
#if defined(__AVX2__)
    auto to = static_cast<char*>(target);
    auto from = static_cast<const char*>(source);
    std::size_t head = -reinterpret_cast<std::uintptr_t>(to) & 63;
    if (bytes < 4096) {
        std::memcpy(to, from, bytes);
        return;
    }
    std::memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
#if defined(__AVX512F__)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#else
        __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32));
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to), low);
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to + 32), high);
#endif
    }
    _mm_sfence();
    std::memcpy(to, from, bytes);
#else
    std::memcpy(target, source, bytes);
#endif
}

template <class Loops, class T> constexpr Reduction entry() {
    return {sizeof(T), sizeof(typename Accumulator<T>::type), Loops::first, Loops::next, Loops::last, Loops::all};
}

}  // namespace

#define PLAIN(T) {entry<Plain<T, Sum<T>>, T>(), entry<Plain<T, Minimum<T>>, T>(), \
                  entry<Plain<T, Maximum<T>>, T>(), entry<Plain<T, Product<T>>, T>()}
#define WIDE(T) {entry<Wide<T, Sum<float>>, T>(), entry<Wide<T, Minimum<float>>, T>(), \
                 entry<Wide<T, Maximum<float>>, T>(), entry<Wide<T, Product<float>>, T>()}

extern const Kernels HCCL_LEVEL;
const Kernels HCCL_LEVEL = {
    {PLAIN(std::uint8_t), PLAIN(std::int8_t), PLAIN(std::int32_t), PLAIN(std::int64_t), WIDE(Half), WIDE(Brain),
     PLAIN(float), PLAIN(double)},
    stream,
};

}  // namespace hccl
