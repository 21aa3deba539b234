// Copies between host and card, and reads of a value.
#include "narrow.h"
#include "recorder.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

namespace hpu {
namespace {

// What of a tensor's elements travels: 32-bit values of types that the card holds so.
int64_t travelling_bytes(const at::Tensor& tensor, int64_t elements) {
  return elements * static_cast<int64_t>(is_narrow(tensor.scalar_type()) ? 4 : tensor.itemsize());
}

void host_to_card(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  require_card();
  const at::Tensor travelling = narrowed(source);
  if (pending(*destination.storage().unsafeGetStorageImpl())) call_flush("host to device copy");
  require_residency(destination);
  call_transfer("h2d", destination, travelling_bytes(destination, destination.numel()), source.is_pinned(), non_blocking);
  settle();
  if (!numerics()) return;
  const at::Tensor arrived = host_alias(destination);
  arrived.copy_(travelling);
  if (source.scalar_type() != destination.scalar_type()) narrow(arrived, /*limit=*/true, "a copy to the card");
}

void card_to_host(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  if (pending(*source.storage().unsafeGetStorageImpl())) call_flush("device to host copy");
  call_transfer("d2h", source, travelling_bytes(source, source.numel()), destination.is_pinned(), non_blocking);
  settle();
  destination.copy_(host_alias(source));
}

// Conversions to 8-bit floats end at the largest number of the card's format, which is not PyTorch's everywhere.
bool rounds_to_fp8(const at::Tensor& source, const at::Tensor& destination) {
  const auto type = destination.scalar_type();
  return (type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2) && source.scalar_type() != type;
}

void card_to_card(const at::Tensor& source, const at::Tensor& destination) {
  if (rounds_to_fp8(source, destination)) {
    static auto op = c10::Dispatcher::singleton().findSchema({"hpu::copy_to_fp8_", ""});
    if (op.has_value()) {
      torch::jit::Stack stack;
      torch::jit::push(stack, destination, source);
      record(op_info(*op), &stack);
      return;
    }
  }
  static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  torch::jit::Stack stack;
  torch::jit::push(stack, destination, source.expand(destination.sizes()), false);
  record(op_info(op), &stack);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& destination, bool non_blocking) {
  Inside inside;
  Gil gil;
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (destination.numel() == 0 && self.numel() == 0) return destination;
  const auto source = self.sizes() == destination.sizes() ? self : self.expand(destination.sizes());
  if (destination.numel() == 0) return destination;
  if (!on_card(source)) host_to_card(source, destination, non_blocking);
  else if (!on_card(destination)) card_to_host(source, destination, non_blocking);
  else card_to_card(source, destination);
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& destination) {
  destination.resize_(self.sizes());
  return copy_from(self, destination, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  Inside inside;
  Gil gil;
  call_flush("item");
  call_transfer("d2h", self, travelling_bytes(self, 1), true, false);
  settle();
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return host_alias(self).item();
}

// Convolutions arrive under names of their own for devices outside PyTorch; what is recorded is the operator proper.
void convolution(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  Gil gil;
  static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
  record(op_info(op), stack);
}

void convolution_backward(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  Gil gil;
  static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", "");
  const size_t base = stack->size() - 10;
  const auto grad_output = (*stack)[base].toTensor();
  const auto weight = (*stack)[base + 2].toTensor();
  const bool transposed = (*stack)[base + 6].toBool();
  const int64_t groups = (*stack)[base + 8].toInt();
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  stack->insert(stack->begin() + static_cast<int64_t>(base) + 3, c10::IValue(c10::List<int64_t>({channels})));
  record(op_info(op), stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("_local_scalar_dense", &local_scalar_dense);
  library.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  library.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&record_boxed>());
}

}  // namespace hpu
