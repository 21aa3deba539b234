// Products whose operands have several floating types: CPU PyTorch refuses them, the card's matrix engine takes them. The
// open bridge (1.19) gives most results the type of the first operand, those of `addmm` and `dot` the common type; here
// they are computed in float32 and rounded once. So do convolutions; PyTorch itself refuses a bias of another type there.
#include "recorder.h"

#include <ATen/ops/linear_native.h>
#include <ATen/ops/matmul_native.h>
#include <torch/library.h>

#include <unordered_map>
#include <vector>

namespace hpu {
namespace {

constexpr int kCommonType = -1;
constexpr int kOfOperands = -2;  // gradients, each of its operand's type
constexpr int kOneType = -3;     // operands of several types are PyTorch's affair
bool refused = false;

void refuse(const std::string& name, const std::vector<c10::ScalarType>& types) {
  std::string listed;
  for (const auto type : types) listed += c10::str(listed.empty() ? "" : " and ", type);
  call_refuse(c10::str(name, " of ", listed, "; convert one of them, or use torch.autocast(\"hpu\")"));
}

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
  if (refused) refuse("linear", {input.scalar_type(), weight.scalar_type()});
  return at::native::linear(input.to(at::kFloat), weight.to(at::kFloat),
                            has_bias ? std::optional(bias->to(at::kFloat)) : std::nullopt)
      .to(input.scalar_type());
}

at::Tensor matmul(const at::Tensor& one, const at::Tensor& other) {
  if (!differ(one, other)) return at::native::matmul(one, other);
  if (refused) refuse("matmul", {one.scalar_type(), other.scalar_type()});
  return at::native::matmul(one.to(at::kFloat), other.to(at::kFloat)).to(one.scalar_type());
}

}  // namespace

std::optional<int> product_of(const c10::FunctionSchema& schema) {
  static const std::unordered_map<std::string, int> table = {
      {"mm", 0},
      {"bmm", 0},
      {"mv", 0},
      {"baddbmm", 0},
      {"addbmm", 0},
      {"addmv", 0},
      {"addr", 0},
      {"addmm", kCommonType},
      {"_addmm_activation", kCommonType},
      {"dot", kCommonType},
      {"vdot", kCommonType},
      {"matmul", kOneType},
      {"matmul_backward", kOneType},
      {"linear", kOneType},
      {"linear_backward", kOneType},
      {"inner", kOneType},
      {"convolution", 0},
      {"_convolution", kOneType},
      {"convolution_overrideable", kOneType},
      {"convolution_backward", kOfOperands},
      {"convolution_backward_overrideable", kOneType},
      {"conv_tbc", kOneType},
      {"conv_tbc_backward", kOneType},
  };
  const auto& name = schema.name();
  if (name.rfind("aten::", 0) != 0) return std::nullopt;
  const auto found = table.find(name.substr(6, name.back() == '_' ? name.size() - 7 : std::string::npos));
  if (found == table.end()) return std::nullopt;
  for (const auto& argument : schema.arguments())
    if (argument.name() == "out_dtype") return kOneType;  // the type of the result is the user's choice
  return found->second;
}

bool is_mixed(const OpInfo& info, at::ArrayRef<c10::IValue> arguments) {
  if (info.product.value_or(kOneType) == kOneType) return false;
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
  std::vector<c10::ScalarType> types;
  for_each_float(arguments, [&](c10::ScalarType type) { types.push_back(type); });
  refuse(info.name, types);
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
