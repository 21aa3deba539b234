// Kinds of tensors that the card does not have: sparse, nested, quantized. They can be made in part, by PyTorch itself;
// the first operator that needs a kernel says so.
#include "recorder.h"

#include <torch/library.h>

namespace hpu {
namespace {

void refuse_kind(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  std::string kind = "sparse, nested and quantized";
  for (const auto& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const auto& tensor = value.toTensor();
    if (tensor.is_nested()) kind = "nested";
    else if (tensor.is_quantized()) kind = "quantized";
    else if (tensor.layout() != c10::Layout::Strided) kind = c10::str(tensor.layout());
    else continue;
    break;
  }
  TORCH_CHECK(false, kind, " tensors are not supported on HPU device (operator ", op.operator_name(),
              "); keep the tensor on the host, or make it dense there");
}

}  // namespace

void check_dense(const at::Tensor& result, const std::string& name) {
  TORCH_CHECK(result.layout() == c10::Layout::Strided && !result.is_quantized() && !result.is_nested(),
              result.is_quantized() ? "quantized" : c10::str(result.layout()),
              " tensors are not supported on HPU device (operator ", name, "); run it on the host");
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_kind>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_kind>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_kind>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_kind>());
}

}  // namespace hpu
