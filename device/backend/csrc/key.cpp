// What makes two operators the same: a hash of the operator, its tensors' layouts and its static arguments.
#include "recorder.h"

#include <cstdio>
#include <cstring>

namespace hpu {
namespace {

uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Everything about a tensor argument but which buffer it lies in.
void mix_tensor(Hash& hash, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    hash.mix(0x11);
    return;
  }
  if (!on_card(tensor)) {  // a number: its value travels beside the recipe
    hash.mix(0x12);
    hash.mix(static_cast<uint64_t>(tensor.scalar_type()) * 2 + tensor.unsafeGetTensorImpl()->is_wrapped_number());
    return;
  }
  hash.mix(0x13 + (static_cast<uint64_t>(tensor.scalar_type()) << 8) + (static_cast<uint64_t>(tensor.dim()) << 16));
  for (auto size : tensor.sizes()) hash.mix(static_cast<uint64_t>(size));
  for (auto stride : tensor.strides()) hash.mix(static_cast<uint64_t>(stride));
  hash.mix(static_cast<uint64_t>(tensor.storage_offset()));
}

void mix_value(Hash& hash, const c10::IValue& value) {
  if (value.isNone()) {
    hash.mix(0x21);
  } else if (value.isInt()) {
    hash.mix(0x22);
    hash.mix(static_cast<uint64_t>(value.toInt()));
  } else if (value.isDouble()) {
    hash.mix(0x23);
    hash.mix(bits_of(value.toDouble()));
  } else if (value.isBool()) {
    hash.mix(value.toBool() ? 0x24 : 0x25);
  } else if (value.isString()) {
    hash.mix(0x26);
    for (char c : value.toStringRef()) hash.mix(static_cast<unsigned char>(c));
  } else if (value.isTensor()) {
    mix_tensor(hash, value.toTensor());
  } else if (value.isList() || value.isTuple()) {
    const auto items = value.isList() ? value.toList().vec() : value.toTupleRef().elements().vec();
    hash.mix(0x27 + (items.size() << 8));
    for (const auto& item : items) mix_value(hash, item);
  } else if (value.isDevice()) {
    hash.mix(0x28);
  } else if (value.isGenerator()) {
    hash.mix(0x29);
  } else if (value.isComplexDouble()) {
    hash.mix(0x2A);
    hash.mix(bits_of(value.toComplexDouble().real()));
    hash.mix(bits_of(value.toComplexDouble().imag()));
  } else {
    TORCH_CHECK(false, "an argument of type ", value.tagKind(), " cannot be recorded for hpu");
  }
}

double number_of(const c10::IValue& value) {
  if (value.isInt()) return static_cast<double>(value.toInt());
  if (value.isBool()) return value.toBool() ? 1.0 : 0.0;
  return value.isDouble() ? value.toDouble() : 0.0;
}

}  // namespace

Hash key_of(const OpInfo& info, const torch::jit::Stack& stack) {
  Hash key = info.hash;
  const auto arguments = torch::jit::last(stack, info.arguments);
  for (size_t i = 0; i < info.arguments; ++i) {
    if (!info.scalars.empty() && contains(info.scalars, i)) {
      const bool unit = info.unit_scalar_matters && number_of(arguments[i]) == 1.0;
      key.mix(0x31 + unit + (arguments[i].isDouble() ? 2 : 0));
    } else {
      mix_value(key, arguments[i]);
    }
  }
  return key;
}

std::string Hash::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return text;
}

}  // namespace hpu
