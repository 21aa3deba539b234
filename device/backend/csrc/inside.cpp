// Time spent in the bridge, for runs that add the user's own time on the host to the modelled one.
#include "recorder.h"

#include <chrono>

namespace hpu {
namespace {

using Clock = std::chrono::steady_clock;

bool measured = false;
thread_local int depth = 0;
thread_local Clock::time_point entered;
thread_local Clock::duration total{};

}  // namespace

Inside::Inside() {
  if (depth++ == 0 && measured) entered = Clock::now();
}

Inside::~Inside() {
  if (--depth == 0 && measured) total += Clock::now() - entered;
}

void measure_inside(bool on) { measured = on; }

double inside_seconds() {
  auto sum = total;
  if (depth > 0 && measured) sum += Clock::now() - entered;
  return std::chrono::duration<double>(sum).count();
}

}  // namespace hpu
