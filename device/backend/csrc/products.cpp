// Products whose operands have several floating types: CPU PyTorch refuses them, the card's matrix engine takes them. The
// open bridge (1.19) gives most results the type of the first operand, those of `addmm` and `dot` the common type; here
// they are computed in float32 and rounded once. So do convolutions; PyTorch itself refuses a bias of another type there.
#include "recorder.h"

#include <ATen/ops/linear_native.h>
#include <ATen/ops/matmul_native.h>
#include <torch/library.h>

#include <unordered_map>

namespace hpu {
namespace {

constexpr int kCommonType = -1;
constexpr int kOfOperands = -2;  // gradients, each of its operand's type
bool refused = false;

template <typename Visit>
void for_each_float(at::ArrayRef<c10::IValue> arguments, const Visit& visit) {
  for (const auto& value : arguments) {
    if (!value.isTensor()) continue;
    const auto& tensor = value.toTensor();
    const bool number = tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
    if (tensor.defined() && !number && c10::isFloatingType(tensor.scalar_type())) visit(tensor.scalar_type());
  }
}

bool differ(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() != other.scalar_type() && at::isFloatingType(one.scalar_type()) &&
         at::isFloatingType(other.scalar_type());
}

// What PyTorch takes apart before the card sees it: `linear`, which the card has whole, and `matmul`, which may exchange
// its operands. On tensors of one type these are PyTorch's own.
at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  const bool has_bias = bias.has_value() && bias->defined();
  if (!differ(input, weight) && !(has_bias && differ(input, *bias))) return at::native::linear(input, weight, bias);
  if (refused) call_refuse(c10::str("linear of ", input.scalar_type(), " input and ", weight.scalar_type(), " weight; "
                                    "convert one of them, or use torch.autocast(\"hpu\")"));
  return at::native::linear(input.to(at::kFloat), weight.to(at::kFloat),
                            has_bias ? std::optional(bias->to(at::kFloat)) : std::nullopt)
      .to(input.scalar_type());
}

at::Tensor matmul(const at::Tensor& one, const at::Tensor& other) {
  if (!differ(one, other)) return at::native::matmul(one, other);
  if (refused) call_refuse(c10::str("matmul of ", one.scalar_type(), " and ", other.scalar_type(), "; convert one of "
                                    "them, or use torch.autocast(\"hpu\")"));
  return at::native::matmul(one.to(at::kFloat), other.to(at::kFloat)).to(one.scalar_type());
}

}  // namespace

std::optional<int> product_type(const c10::FunctionSchema& schema) {
  static const std::unordered_map<std::string, int> table = {
      {"aten::mm", 0},      {"aten::bmm", 0},     {"aten::mv", 0},       {"aten::baddbmm", 0}, {"aten::baddbmm_", 0},
      {"aten::addbmm", 0},  {"aten::addbmm_", 0}, {"aten::addmv", 0},    {"aten::addmv_", 0},  {"aten::addr", 0},
      {"aten::addr_", 0},   {"aten::addmm", kCommonType}, {"aten::addmm_", kCommonType},
      {"aten::_addmm_activation", kCommonType}, {"aten::dot", kCommonType}, {"aten::vdot", kCommonType},
      {"aten::convolution", 0}, {"aten::convolution_backward", kOfOperands},
  };
  const auto found = table.find(schema.name());
  if (found == table.end()) return std::nullopt;
  for (const auto& argument : schema.arguments())
    if (argument.name() == "out_dtype") return std::nullopt;  // the type of the result is the user's choice
  return found->second;
}

bool is_mixed(const OpInfo& info, at::ArrayRef<c10::IValue> arguments) {
  if (!info.product) return false;
  std::optional<c10::ScalarType> first;
  bool mixed = false;
  for_each_float(arguments, [&](c10::ScalarType type) {
    mixed |= first.value_or(type) != type;
    first = type;
  });
  return mixed;
}

c10::ScalarType mixed_result(const OpInfo& info, at::ArrayRef<c10::IValue> arguments, size_t result) {
  static constexpr size_t kOperands[] = {1, 2, 0};  // gradients of input, weight and bias: their types, that of grad_output
  if (*info.product == kOfOperands) return arguments[kOperands[result]].toTensor().scalar_type();
  if (*info.product != kCommonType) return arguments[*info.product].toTensor().scalar_type();
  std::optional<c10::ScalarType> common;
  for_each_float(arguments, [&](c10::ScalarType type) { common = common ? c10::promoteTypes(*common, type) : type; });
  return *common;
}

void refuse_mixed(bool on) { refused = on; }

void check_mixed(const OpInfo& info, const torch::jit::Stack& stack) {
  if (!refused) return;
  const auto arguments = torch::jit::last(stack, info.arguments);
  if (!is_mixed(info, arguments)) return;
  std::string types;
  for_each_float(arguments, [&](c10::ScalarType type) { types += c10::str(types.empty() ? "" : " and ", type); });
  call_refuse(c10::str(info.name, " of ", types, "; convert one of them, or use torch.autocast(\"hpu\")"));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  library.impl("linear", &linear);
  library.impl("matmul", &matmul);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {  // in inference mode
  library.impl("linear", &linear);
  library.impl("matmul", &matmul);
}

}  // namespace hpu
