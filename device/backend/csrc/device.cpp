// Registration of the device with PyTorch: allocator, guard and hooks. A process sees one card, hpu:0.
#include "block.h"
#include "random.h"
#include "recorder.h"
#include "views.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace hpu {
namespace {

std::atomic<int> device_total{1};
std::atomic<bool> initialized{false};

c10::Device card() { return c10::Device(kHpu, 0); }

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  static thread_local c10::StreamId stream;

  explicit Guard(c10::DeviceType type = kHpu) : type_(type) {}

  c10::DeviceType type() const override { return type_; }
  c10::Device exchangeDevice(c10::Device /*device*/) const override { return own(); }
  c10::Device getDevice() const override { return own(); }
  void setDevice(c10::Device /*device*/) const override {}
  void uncheckedSetDevice(c10::Device /*device*/) const noexcept override {}
  c10::Stream getStream(c10::Device /*device*/) const override { return numbered(stream); }
  c10::Stream getDefaultStream(c10::Device /*device*/) const override { return numbered(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override { return getNewStream(device); }
  c10::Stream getNewStream(c10::Device /*device*/, int /*priority*/ = 0) const override {
    static std::atomic<c10::StreamId> next{1 << 20};  // streams made in Python count from 1
    return numbered(next++);
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    const c10::Stream before = numbered(stream);
    stream = next.id();
    if (before.id() != stream) tell("choose", {stream});
    return before;
  }
  // Numbers are computed in program order; what waits for what in modelled time is Python's to know.
  void record(void** event, const c10::Stream& on, const c10::DeviceIndex, const c10::EventFlag flag) const override {
    auto* mark = static_cast<Mark*>(*event);
    if (!mark) *event = mark = new Mark();
    if (mark->number >= 0) tell("forget", {mark->number});
    mark->number = static_cast<int64_t>(tell("record", {on.id()}));
    mark->timed = flag == c10::EventFlag::BACKEND_DEFAULT;
  }
  void block(void* event, const c10::Stream& later) const override {
    if (event) tell("block", {number_of(event), later.id()});
  }
  bool queryEvent(void* event) const override { return !event || tell("query", {number_of(event)}) != 0; }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    std::unique_ptr<Mark> mark(static_cast<Mark*>(event));
    if (!mark || mark->number < 0 || !python_runs()) return;
    try {
      tell("forget", {mark->number});
    } catch (const std::exception&) {  // the process ends
    }
  }
  void synchronizeEvent(void* event) const override {
    if (event) tell("synchronize", {number_of(event)});
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    for (const auto* event : {start, end})
      TORCH_CHECK(event && static_cast<const Mark*>(event)->timed, "the ", event == start ? "start" : "end",
                  " event has no time; make it with torch.Event(\"hpu\", enable_timing=True) and record it");
    return tell("elapsed", {number_of(start), number_of(end)});
  }
  bool queryStream(const c10::Stream& on) const override { return tell("query_stream", {on.id()}) != 0; }
  void synchronizeStream(const c10::Stream& on) const override { tell("synchronize_stream", {on.id()}); }
  void synchronizeDevice(const c10::DeviceIndex) const override {
    Gil gil;
    call_flush("synchronize");
  }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(device_total.load()); }

 private:
  struct Mark {
    int64_t number = -1;
    bool timed = false;
  };
  static int64_t number_of(void* event) { return static_cast<Mark*>(event)->number; }
  static double tell(const char* what, const std::vector<int64_t>& numbers) {
    Gil gil;
    return call_guard(what, numbers);
  }
  c10::Device own() const { return c10::Device(type_, 0); }
  c10::Stream numbered(c10::StreamId id) const { return c10::Stream(c10::Stream::UNSAFE, own(), id); }

  c10::DeviceType type_;
};

thread_local c10::StreamId Guard::stream = 0;

// Page-locked host memory: ordinary memory that remembers that it was asked for as pinned.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    auto memory = c10::GetCPUAllocator()->allocate(nbytes);
    void* data = memory.get();
    if (data) {
      std::lock_guard<std::mutex> lock(mutex_);
      ranges_[reinterpret_cast<uintptr_t>(data)] = nbytes;
    }
    auto* held = new c10::DataPtr(std::move(memory));
    return {data, held, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* dest, const void* src, std::size_t count) const override { default_copy_data(dest, src, count); }

  bool owns(const void* pointer) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return false;
    --after;
    return address < after->first + after->second;
  }

 private:
  static void release(void* context);
  std::mutex mutex_;
  std::map<uintptr_t, size_t> ranges_;
};

PinnedAllocator& pinned() {
  static auto* instance = new PinnedAllocator();
  return *instance;
}

void PinnedAllocator::release(void* context) {
  auto* held = static_cast<c10::DataPtr*>(context);
  {
    std::lock_guard<std::mutex> lock(pinned().mutex_);
    pinned().ranges_.erase(reinterpret_cast<uintptr_t>(held->get()));
  }
  delete held;
}

struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_total > 0; }
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return initialized; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(device_total.load()); }
  void setCurrentDevice(c10::DeviceIndex /*index*/) const override {}
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex /*index*/) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex /*index*/) const override { return 0; }
  bool isPinnedPtr(const void* data) const override { return pinned().owns(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned(); }
  c10::Device getDeviceFromPtr(void* /*data*/) const override { return card(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex /*index*/) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex /*index*/) const override {
    return at::Generator(c10::make_intrusive<HpuGenerator>(c10::default_rng_seed_val));
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    resize_storage(storage, nbytes);
  }
};

}  // namespace

void set_device_count(int count) { device_total = count; }
void set_initialized() { initialized = true; }
void require_card() {
  if (!initialized) call_flush("initialize");
}

// PyTorch has an hpu key of its own, which nothing uses; devices made before ours had its name carry it.
void guard_unused_key() {
  static const auto* guard = new Guard(c10::DeviceType::HPU);
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::HPU)].store(guard);
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

static const bool registered = [] {
  c10::SetAllocator(kHpu, allocator());
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();

}  // namespace hpu
