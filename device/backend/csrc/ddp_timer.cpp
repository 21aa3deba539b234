// The clock that DistributedDataParallel's logger asks a device for: host time stamps, so that it does not complain.
#include "block.h"

#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

namespace hpu {

class HpuTimer final : public c10d::Timer {
 public:
  explicit HpuTimer(c10::Device /*device*/) {}

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto from = getTimestamp(start), to = getTimestamp(end);
    if (!from || !to || *to < *from) return std::nullopt;
    return *to - *from;
  }
};

}  // namespace hpu

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, hpu::HpuTimer)
}  // namespace c10d
