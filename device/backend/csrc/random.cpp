// The card's random numbers. A random operator gets a seed of its own when it is recorded, drawn from the card's
// generator; the seed travels beside the recipe, as the seed tensor of the real bridge does.
#include "random.h"

#include "recorder.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace hpu {

HpuGenerator::HpuGenerator(uint64_t seed)
    : c10::GeneratorImpl(c10::Device(kHpu, 0), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      engine_(at::detail::createCPUGenerator(seed)) {}

void HpuGenerator::set_current_seed(uint64_t seed) { engine_.set_current_seed(seed); }
void HpuGenerator::set_offset(uint64_t offset) { engine_.set_offset(offset); }
uint64_t HpuGenerator::get_offset() const { return engine_.get_offset(); }
uint64_t HpuGenerator::current_seed() const { return engine_.current_seed(); }
uint64_t HpuGenerator::seed() { return engine_.seed(); }
void HpuGenerator::set_state(const c10::TensorImpl& state) { engine_.unsafeGetGeneratorImpl()->set_state(state); }
c10::intrusive_ptr<c10::TensorImpl> HpuGenerator::get_state() const {
  return engine_.unsafeGetGeneratorImpl()->get_state();
}
uint64_t HpuGenerator::draw() { return at::check_generator<at::CPUGeneratorImpl>(engine_)->random64(); }

HpuGenerator* HpuGenerator::clone_impl() const {
  auto* copy = new HpuGenerator(0);
  copy->engine_ = engine_.clone();
  return copy;
}

at::Generator& default_generator() {
  static auto* generator = new at::Generator(c10::make_intrusive<HpuGenerator>(c10::default_rng_seed_val));
  return *generator;
}

int64_t draw_seed(const std::optional<at::Generator>& generator) {
  const at::Generator& source = generator.has_value() ? *generator : default_generator();
  if (source.device().is_cpu()) {  // the bridge's own generator is the CPU's, and it takes both
    auto* cpu = at::check_generator<at::CPUGeneratorImpl>(source);
    std::lock_guard<std::mutex> lock(cpu->mutex_);
    return static_cast<int64_t>(cpu->random64() >> 1);
  }
  TORCH_CHECK(source.device().type() == kHpu, "Expected a 'hpu' device type for generator but found '",
              source.device(), "'; make it with torch.Generator(device=\"hpu\")");
  auto* implementation = static_cast<HpuGenerator*>(source.unsafeGetGeneratorImpl());
  std::lock_guard<std::mutex> lock(implementation->mutex_);
  return static_cast<int64_t>(implementation->draw() >> 1);
}

void call_seeded(const OpInfo& info, torch::jit::Stack& stack, int64_t seed) {
  if (info.generator >= 0) {
    thread_local at::Generator generator = at::detail::createCPUGenerator();
    generator.set_current_seed(static_cast<uint64_t>(seed));
    stack[stack.size() - info.arguments + info.generator] = generator;
    call_kernel(info, stack);
    return;
  }
  // The operator can only draw from the CPU's default generator: lend it our seed and put the state back.
  auto generator = at::detail::getDefaultCPUGenerator();
  const auto state = generator.get_state();
  generator.set_current_seed(static_cast<uint64_t>(seed));
  struct Restore {
    at::Generator& generator;
    const at::Tensor& state;
    ~Restore() { generator.set_state(state); }
  } restore{generator, state};
  call_kernel(info, stack);
}

}  // namespace hpu
