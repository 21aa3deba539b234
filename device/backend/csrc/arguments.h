// The arguments of an operator with every tensor in them changed.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>

namespace hpu {

// `change` maps a tensor to a tensor. Devices become `device`; a generator is left out, seeds travel on their own.
template <typename Change>
c10::IValue map_argument(const c10::IValue& value, c10::Device device, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const auto& tensor : value.toTensorVector()) list.push_back(change(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& item : value.toOptionalTensorVector())
      list.push_back(item.has_value() ? std::optional<at::Tensor>(change(*item)) : std::nullopt);
    return list;
  }
  if (value.isDevice()) return device;
  if (value.isGenerator()) return c10::IValue();
  return value;
}

}  // namespace hpu
