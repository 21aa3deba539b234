#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace hpu {

// A generator of the card: the CPU's Mersenne twister under the hpu device, so that its state has the CPU's form.
struct HpuGenerator final : public c10::GeneratorImpl {
  explicit HpuGenerator(uint64_t seed);
  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  uint64_t draw();

 private:
  HpuGenerator* clone_impl() const override;
  mutable at::Generator engine_;
};

at::Generator& default_generator();

}  // namespace hpu
