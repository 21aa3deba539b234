// Types that the card computes with and a CPU kernel does not: 8-bit floats in most operators, half precision in some.
// Such an operator runs in float32 and its results are rounded once, which is what the card's kernels do.
#include "arguments.h"
#include "recorder.h"

namespace hpu {
namespace {

bool is_small_float(c10::ScalarType dtype) {
  return c10::isFloat8Type(dtype) || dtype == at::kHalf || dtype == at::kBFloat16;
}

bool takes_small_floats(const torch::jit::Stack& stack, size_t arguments) {
  const auto small = [](const at::Tensor& tensor) { return tensor.defined() && is_small_float(tensor.scalar_type()); };
  for (const auto& value : torch::jit::last(stack, arguments)) {
    if (value.isTensor() && small(value.toTensor())) return true;
    if (value.isTensorList())
      for (const auto& tensor : value.toTensorVector())
        if (small(tensor)) return true;
  }
  return false;
}

// How PyTorch's CPU kernels say that they do not have a type.
bool lacks_type(const std::string& message) {
  return message.find("not implemented for '") != std::string::npos ||
         message.find("Unsupported datatype") != std::string::npos;
}

struct Widened {
  torch::jit::Stack stack;
  std::optional<c10::ScalarType> type;  // the small type; of several the first
};

Widened widen(const OpInfo& info, const torch::jit::Stack& arguments) {
  Widened wide;
  const auto& schema = info.handle.schema();
  std::optional<c10::ScalarType> asked;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = arguments[i];
    if (value.isGenerator()) {
      wide.stack.push_back(value);
    } else if (value.isInt() && schema.arguments()[i].name() == "dtype") {
      asked = static_cast<c10::ScalarType>(value.toInt());
      wide.stack.emplace_back(static_cast<int64_t>(is_small_float(*asked) ? at::kFloat : *asked));
    } else {
      wide.stack.push_back(map_argument(value, c10::Device(c10::kCPU), [&](const at::Tensor& tensor) {
        if (!tensor.defined() || !is_small_float(tensor.scalar_type())) return tensor;
        if (!wide.type) wide.type = tensor.scalar_type();
        return tensor.to(at::kFloat);
      }));
    }
  }
  if (asked) wide.type = asked;
  return wide;
}

void write_back(const c10::IValue& wide, const c10::IValue& argument) {
  const auto write = [](const at::Tensor& from, const at::Tensor& to) {
    if (!from.defined() || from.is_same(to)) return;
    if (from.sizes() != to.sizes()) to.resize_(from.sizes());
    to.copy_(from);
  };
  if (argument.isTensor()) {
    write(wide.toTensor(), argument.toTensor());
  } else if (argument.isTensorList()) {
    const auto from = wide.toTensorVector(), to = argument.toTensorVector();
    for (size_t i = 0; i < to.size(); ++i) write(from[i], to[i]);
  }
}

}  // namespace

void call_kernel(const OpInfo& info, torch::jit::Stack& stack) {
  if (!takes_small_floats(stack, info.arguments)) {
    info.handle.callBoxed(stack);
    return;
  }
  torch::jit::Stack arguments(stack.end() - static_cast<std::ptrdiff_t>(info.arguments), stack.end());
  try {
    info.handle.callBoxed(stack);
    return;
  } catch (const c10::Error& error) {
    if (!lacks_type(error.what_without_backtrace())) throw;
  }
  Widened wide = widen(info, arguments);
  torch::jit::Stack results = wide.stack;
  info.handle.callBoxed(results);
  for (int position : info.written) write_back(wide.stack[position], arguments[position]);
  const auto narrow = [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.scalar_type() == at::kFloat ? tensor.to(*wide.type) : tensor;
  };
  stack.clear();
  for (size_t r = 0; r < results.size(); ++r)
    stack.push_back(info.returns[r] >= 0 ? arguments[info.returns[r]]
                                         : map_argument(results[r], c10::Device(c10::kCPU), narrow));
}

}  // namespace hpu
