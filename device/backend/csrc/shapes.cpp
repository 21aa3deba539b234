// Shapes of results before anything ran: asked once of PyTorch's meta kernels, then remembered.
#include "recorder.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <unordered_map>

namespace hpu {
namespace {

at::Tensor to_meta(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kHpu) return tensor;
  return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

c10::IValue to_meta(const c10::IValue& value) {
  if (value.isTensor()) return to_meta(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const auto& tensor : value.toTensorVector()) list.push_back(to_meta(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& item : value.toOptionalTensorVector())
      list.push_back(item.has_value() ? std::optional<at::Tensor>(to_meta(*item)) : std::nullopt);
    return list;
  }
  if (value.isDevice()) return c10::Device(c10::DeviceType::Meta);
  if (value.isGenerator()) return c10::IValue();
  return value;
}

ResultShape shape_of(const at::Tensor& tensor) {
  ResultShape shape;
  shape.defined = tensor.defined();
  if (!shape.defined) return shape;
  shape.window.dtype = tensor.scalar_type();
  shape.window.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  shape.window.strides.assign(tensor.strides().begin(), tensor.strides().end());
  return shape;
}

std::vector<ResultShape> shapes_of(const c10::IValue& value) {
  std::vector<ResultShape> shapes;
  if (value.isTensor()) shapes.push_back(shape_of(value.toTensor()));
  else if (value.isTensorList())
    for (const auto& tensor : value.toTensorVector()) shapes.push_back(shape_of(tensor));
  else shapes.emplace_back();
  return shapes;
}

std::shared_ptr<const ResultShapes> ask_meta(const OpInfo& info, const torch::jit::Stack& stack) {
  torch::jit::Stack meta;
  meta.reserve(info.arguments);
  for (const auto& value : torch::jit::last(stack, info.arguments)) meta.push_back(to_meta(value));
  std::vector<c10::IValue> outs;
  for (int position : info.outs) outs.push_back(meta[position]);
  try {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    info.handle.callBoxed(meta);
  } catch (const std::exception&) {
    return nullptr;  // no meta kernel, or the user's mistake: running the operator tells
  }
  auto result = std::make_shared<ResultShapes>();
  auto& shapes = *result;
  for (size_t r = 0; r < info.returns.size(); ++r) shapes.push_back(shapes_of(meta[r]));
  for (const auto& out : outs) shapes.push_back(shapes_of(out));
  return result;
}

}  // namespace

std::shared_ptr<const ResultShapes> predict(OpInfo& info, const Hash& key, const torch::jit::Stack& stack) {
  static auto* cache = new std::unordered_map<Hash, std::shared_ptr<const ResultShapes>, HashOf>();
  constexpr size_t kMost = 1 << 18;
  const auto found = cache->find(key);
  if (found != cache->end()) return found->second;
  auto shapes = ask_meta(info, stack);
  if (!shapes) return nullptr;
  if (cache->size() >= kMost) cache->clear();
  cache->emplace(key, shapes);
  return shapes;
}

}  // namespace hpu
