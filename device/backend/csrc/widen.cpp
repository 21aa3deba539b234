// Arguments that the card computes with and a CPU kernel refuses. Types: 8-bit floats in most operators, half precision in
// some, 32-bit indices in a few. Such an operator runs on wider types: floats in float32 with results that are rounded
// once, which is what the card's kernels do, and indices, which are 32 bits wide on the card anyway, in int64. So do
// products of matrices of several floating types, whose result has the type that the card gives it. Memory: the
// card reads all operands before it writes, so an operator may write to what it reads; here it reads a copy.
//
// Products of a half type that this processor has no instructions for are taken in float32 from the start: the kernels
// that CPU PyTorch falls back to are plain loops, tens of times slower.
#include "arguments.h"
#include "recorder.h"

#include <algorithm>

namespace hpu {
namespace {

bool is_small_float(c10::ScalarType dtype) {
  return c10::isFloat8Type(dtype) || dtype == at::kHalf || dtype == at::kBFloat16;
}

// Whether oneDNN multiplies matrices of this type here.
bool has_products(const char* question) {
  const auto op = c10::Dispatcher::singleton().findSchema({question, ""});
  if (!op) return false;
  torch::jit::Stack stack;
  op->callBoxed(stack);
  return stack.front().toBool();
}

bool multiplied_slowly(const at::Tensor& tensor) {
  static const bool half = has_products("mkldnn::_is_mkldnn_fp16_supported");
  static const bool bfloat16 = has_products("mkldnn::_is_mkldnn_bf16_supported");
  const auto dtype = tensor.scalar_type();
  return tensor.is_cpu() && ((dtype == at::kHalf && !half) || (dtype == at::kBFloat16 && !bfloat16));
}

struct Widening {
  bool floats = false;
  bool indices = false;
  bool copies = false;
  bool mixed = false;
};

// What of the arguments could be changed.
Widening possible(const OpInfo& info, const torch::jit::Stack& stack) {
  Widening found;
  found.copies = !info.written.empty();
  const auto arguments = torch::jit::last(stack, info.arguments);
  found.mixed = is_mixed(info, arguments);
  for (size_t i = 0; i < info.arguments; ++i) {
    const auto look = [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      if (is_small_float(tensor.scalar_type())) found.floats = true;
      else if (c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true) && info.takes_integers) found.floats = true;
      else if (tensor.scalar_type() == at::kInt && info.is_index[i]) found.indices = true;
    };
    if (arguments[i].isTensor()) look(arguments[i].toTensor());
    if (arguments[i].isTensorList())
      for (const auto& tensor : arguments[i].toTensorVector()) look(tensor);
  }
  return found;
}

bool is_slow(const OpInfo& info, const torch::jit::Stack& arguments) {
  return info.product && std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
           return value.isTensor() && value.toTensor().defined() && multiplied_slowly(value.toTensor());
         });
}

// What a kernel that refused should be given: these are the ways in which PyTorch says why.
Widening asked_for(const std::string& message) {
  const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
  Widening asked;
  asked.floats = says("not implemented for '") || says("Unsupported datatype");
  asked.indices = says("xpected a long tensor for index") || says("xpected dtype int64 for index") ||
                  says("expected target dtype to be Long") || says("expected scalar type Long but found Int") ||
                  says("should be type int64 but got: Int");
  asked.copies = says("the input tensor and the written-to tensor refer to a single memory location");
  return asked;
}

double e4m3_largest = 448;

// Rounding ends at the largest number of the format; how far e4m3 reaches depends on the generation.
at::Tensor narrowed(const at::Tensor& tensor, c10::ScalarType type) {
  if (!c10::isFloat8Type(type)) return tensor.to(type);
  const double limit = type == at::kFloat8_e4m3fn ? e4m3_largest : 57344;
  return tensor.clamp(-limit, limit).to(type);
}

struct Widened {
  torch::jit::Stack stack;
  std::optional<c10::ScalarType> type;  // of results that come in float32; of several small types the first
};

Widened widen(const OpInfo& info, const torch::jit::Stack& arguments, const Widening& widening) {
  Widened wide;
  const auto& schema = info.handle.schema();
  std::optional<c10::ScalarType> named;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = arguments[i];
    const auto& name = schema.arguments()[i].name();
    if (value.isGenerator() || value.isDevice()) {
      wide.stack.push_back(value);
    } else if (widening.floats && value.isInt() && name == "dtype") {
      named = static_cast<c10::ScalarType>(value.toInt());
      wide.stack.emplace_back(static_cast<int64_t>(is_small_float(*named) ? at::kFloat : *named));
    } else {
      wide.stack.push_back(map_argument(value, c10::Device(c10::kCPU), [&](const at::Tensor& tensor) {
        if (!tensor.defined()) return tensor;
        const auto dtype = tensor.scalar_type();
        if (widening.indices && dtype == at::kInt && info.is_index[i]) return tensor.to(at::kLong);
        const bool copy = widening.copies && !contains(info.written, i);
        const bool small = is_small_float(dtype) || (widening.mixed && c10::isFloatingType(dtype)) ||
                           (info.takes_integers && c10::isIntegralType(dtype, /*includeBool=*/true));
        if (!(widening.floats || widening.mixed) || !small) return copy ? tensor.clone() : tensor;
        if (!wide.type) wide.type = dtype;
        return tensor.to(at::kFloat);
      }));
    }
  }
  if (named) wide.type = named;
  return wide;
}

void write_back(const c10::IValue& wide, const c10::IValue& argument) {
  const auto write = [](const at::Tensor& from, const at::Tensor& to) {
    if (!from.defined() || from.is_same(to)) return;
    if (from.sizes() != to.sizes()) to.resize_(from.sizes());
    to.copy_(is_small_float(to.scalar_type()) ? narrowed(from, to.scalar_type()) : from);
  };
  if (argument.isTensor()) {
    write(wide.toTensor(), argument.toTensor());
  } else if (argument.isTensorList()) {
    const auto from = wide.toTensorVector(), to = argument.toTensorVector();
    for (size_t i = 0; i < to.size(); ++i) write(from[i], to[i]);
  }
}

}  // namespace

void set_e4m3_largest(double limit) { e4m3_largest = limit; }

void call_kernel(const OpInfo& info, torch::jit::Stack& stack) {
  const Widening can = possible(info, stack);
  if (!can.floats && !can.indices && !can.copies && !can.mixed) {
    info.handle.callBoxed(stack);
    return;
  }
  const torch::jit::Stack arguments(stack.end() - static_cast<std::ptrdiff_t>(info.arguments), stack.end());
  Widening widening;
  widening.mixed = can.mixed;
  widening.floats = is_slow(info, arguments);
  const auto refused = [&](const c10::Error& error) {
    const Widening asked = asked_for(error.what_without_backtrace());
    const bool floats = asked.floats && can.floats && !widening.floats;
    const bool indices = asked.indices && can.indices && !widening.indices;
    const bool copies = asked.copies && can.copies && !widening.copies;
    widening.floats |= floats;
    widening.indices |= indices;
    widening.copies |= copies;
    return !floats && !indices && !copies;
  };
  if (!widening.floats && !widening.mixed) {
    try {
      info.handle.callBoxed(stack);
      return;
    } catch (const c10::Error& error) {
      if (refused(error)) throw;
    }
  }
  Widened wide;
  torch::jit::Stack results;
  for (bool done = false; !done;) {
    wide = widen(info, arguments, widening);
    results = wide.stack;
    try {
      info.handle.callBoxed(results);
      done = true;
    } catch (const c10::Error& error) {
      if (refused(error)) throw;
    }
  }
  for (int position : info.written) write_back(wide.stack[position], arguments[position]);
  stack.clear();
  for (size_t r = 0; r < results.size(); ++r) {
    const auto type = widening.mixed ? mixed_result(info, arguments, r) : wide.type;
    const auto narrow = [&](const at::Tensor& tensor) {
      return type && tensor.defined() && tensor.scalar_type() == at::kFloat ? narrowed(tensor, *type) : tensor;
    };
    stack.push_back(info.returns[r] >= 0 ? arguments[info.returns[r]]
                                         : map_argument(results[r], c10::Device(c10::kCPU), narrow));
  }
}

}  // namespace hpu
