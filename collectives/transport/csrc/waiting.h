// Counters in shared memory, and waiting for them.
//
// A counter has one writer and only grows. Whoever waits looks a few times, then lets others run (ranks outnumber
// cores, so whoever is late probably just wants to run), then sleeps in the kernel on a bell until somebody rings it.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace hccl {

enum Status { DONE = 0, DELAYED = 1, DISAGREED = 2, NEEDS_BUFFERS = 3 };

constexpr std::int64_t YIELDING_NS = 100'000;     // let others run for so long before sleeping
constexpr std::int64_t PATIENCE_NS = 50'000'000;  // then say that it takes long

// One cache line: a counter, and a bell on which those sleep that wait for it (or for several, and have agreed on one).
struct alignas(64) Signal {
    std::uint64_t value;
    std::uint32_t rung;
    std::uint32_t sleepers;

    std::uint64_t read() const {
        return std::atomic_ref(const_cast<std::uint64_t&>(value)).load(std::memory_order_acquire);
    }
    // Everything written before is visible to whoever reads the value.
    void post(std::uint64_t next) { std::atomic_ref(value).store(next, std::memory_order_release); }

    // Wake the sleepers. What they wait for was posted before; the fence orders that against their last look.
    void ring() {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (std::atomic_ref(sleepers).load(std::memory_order_relaxed) == 0) return;
        std::atomic_ref(rung).fetch_add(1, std::memory_order_seq_cst);
        syscall(SYS_futex, &rung, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
    }
};

inline std::int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

inline void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Return DONE when `is_ready()`, DELAYED when that takes long or a signal came. `looks`: how often to look before
// letting others run.
template <class Ready> Status wait_until(Signal& bell, int looks, Ready is_ready) {
    for (int i = 0; i < looks; ++i) {
        if (is_ready()) return DONE;
        pause_briefly();
    }
    std::int64_t begin = now_ns();
    for (unsigned i = 1;; ++i) {
        if (is_ready()) return DONE;
        sched_yield();
        if (i % 8 == 0 && now_ns() - begin > YIELDING_NS) break;
    }
    std::atomic_ref sleepers(bell.sleepers), rung(bell.rung);
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Status status = DONE;
    for (;;) {
        std::uint32_t seen = rung.load(std::memory_order_seq_cst);
        if (is_ready()) break;
        std::int64_t left = PATIENCE_NS - (now_ns() - begin);
        if (left <= 0) {
            status = DELAYED;
            break;
        }
        timespec time{left / 1'000'000'000, left % 1'000'000'000};
        long result = syscall(SYS_futex, &bell.rung, FUTEX_WAIT, seen, &time, nullptr, 0);
        if (result == -1 && errno == EINTR) {
            status = is_ready() ? DONE : DELAYED;
            break;
        }
    }
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
    return status;
}

}  // namespace hccl
