// Shapes of results before anything ran: asked once of PyTorch's meta kernels, then remembered.
#include "arguments.h"
#include "recorder.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <unordered_map>

namespace hpu {
namespace {

at::Tensor to_meta_tensor(const at::Tensor& tensor) {
  if (!tensor.defined() || !on_card(tensor)) return tensor;
  return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
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

// Where PyTorch's meta kernels announce another statistic than the CPU kernels, which replay runs, give: the kernels of
// the normalizations keep their mean and deviation in the parameters' type, and give none outside training.
void correct_normalization(const OpInfo& info, const torch::jit::Stack& stack, ResultShapes& shapes) {
  const auto arguments = torch::jit::last(stack, info.arguments);
  const auto& schema = info.handle.schema();
  if (schema.name() == "aten::native_group_norm_backward") {  // the gradient of the input has the input's type
    const auto& input = arguments[1].toTensor();
    const size_t gradient = info.outs.size() == 3 ? info.returns.size() : 0;
    if (shapes.size() > gradient && shapes[gradient][0].defined)
      shapes[gradient][0].window.dtype = input.scalar_type();
    return;
  }
  if (schema.name().find("batch_norm_backward") != std::string::npos) {  // what is not asked for is not there
    const size_t first = info.outs.size() == 3 ? info.returns.size() : 0;
    for (size_t i = 0; i < info.arguments; ++i) {
      if (schema.arguments()[i].name() != "output_mask") continue;
      const auto mask = arguments[i].toBoolList();
      for (size_t r = 0; r < mask.size() && first + r < shapes.size(); ++r)
        if (!mask.get(r)) shapes[first + r][0].defined = false;
    }
    return;
  }
  const bool batch = schema.name().find("batch_norm") != std::string::npos;
  if (!batch && schema.name() != "aten::native_layer_norm" && schema.name() != "aten::native_group_norm") return;
  const size_t first = info.outs.size() == 3 ? info.returns.size() : 0;  // the out= arguments stand behind the returns
  if (schema.name().find("backward") != std::string::npos || shapes.size() < first + 3) return;
  bool training = schema.name() != "aten::_batch_norm_no_update";
  std::optional<c10::ScalarType> parameters;
  for (size_t i = 0; i < info.arguments; ++i) {
    const auto& name = schema.arguments()[i].name();
    if (name == "training") training = arguments[i].toBool();
    if (name != "weight" && name != "bias" && name != "running_mean") continue;
    if (!parameters && arguments[i].isTensor() && arguments[i].toTensor().defined())
      parameters = arguments[i].toTensor().scalar_type();
  }
  for (size_t r = 1; r <= 2; ++r) {
    auto& window = shapes[first + r][0].window;
    window.dtype = parameters.value_or(arguments[0].toTensor().scalar_type());
    if (batch && !training) {
      window.sizes.assign({0});
      window.strides.assign({1});
    }
  }
}

constexpr int64_t kSmall = 1024;  // elements

// The CPU kernel itself is asked, on tensors of one value, where that is better than the meta kernel: of bags, whose
// bookkeeping depends on the reduction and on the kernel; and of pointwise operators on small tensors, since the meta
// kernels of those are Python and the first one imports a compiler for a second.
bool ask_host_kernel(const OpInfo& info, const torch::jit::Stack& stack) {
  const bool backward = info.name.find("backward") != std::string::npos;
  if (info.name.rfind("aten::_embedding_bag", 0) == 0 && !backward) return true;
  if (info.name.rfind("aten::multilabel_margin_loss", 0) == 0 && !backward) return true;
  if (!info.handle.hasTag(at::Tag::pointwise) || info.random) return false;
  for (const auto& value : torch::jit::last(stack, info.arguments))
    if (value.isTensorList() || (value.isTensor() && value.toTensor().defined() && value.toTensor().numel() > kSmall))
      return false;
  return true;
}

at::Tensor filled_on_host(const at::Tensor& tensor, int64_t number) {
  if (!on_card(tensor)) return tensor;
  int64_t reach = tensor.numel() > 0 ? 1 : 0;  // expanded tensors share elements
  for (int64_t i = 0; i < tensor.dim(); ++i) reach += (tensor.size(i) - 1) * tensor.stride(i) * (tensor.numel() > 0);
  at::Tensor filled =
      at::detail::empty_cpu({reach}, tensor.scalar_type(), c10::Layout::Strided, c10::kCPU, false, std::nullopt);
  filled.fill_(number);
  filled.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return filled;
}

std::shared_ptr<const ResultShapes> ask_meta(const OpInfo& info, const torch::jit::Stack& stack) {
  torch::jit::Stack meta;
  meta.reserve(info.arguments);
  const bool on_host = ask_host_kernel(info, stack);
  const int64_t number = info.handle.hasTag(at::Tag::pointwise) ? 1 : 0;  // nothing is divided by 0
  for (const auto& value : torch::jit::last(stack, info.arguments)) {
    if (on_host && value.isTensor() && value.toTensor().defined()) meta.push_back(filled_on_host(value.toTensor(), number));
    else meta.push_back(map_argument(value, c10::Device(c10::kMeta), to_meta_tensor));
  }
  std::vector<c10::IValue> outs;
  for (int position : info.outs) outs.push_back(meta[position]);
  try {
    c10::impl::ExcludeDispatchKeyGuard no_modes(c10::python_ks);  // of PyTorch: they have seen the operator on hpu
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    call_kernel(info, meta);
  } catch (const std::exception&) {
    return nullptr;  // no meta kernel, or the user's mistake: running the operator tells
  }
  auto result = std::make_shared<ResultShapes>();
  auto& shapes = *result;
  for (size_t r = 0; r < info.returns.size(); ++r) shapes.push_back(shapes_of(meta[r]));
  for (const auto& out : outs) shapes.push_back(shapes_of(out));
  correct_normalization(info, stack, shapes);
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
