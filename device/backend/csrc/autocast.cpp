// Automatic mixed precision: three lists of operators, one boxed kernel.
#include "autocast.h"

#include "recorder.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <unordered_map>

namespace hpu {
namespace {

std::unordered_map<c10::OperatorHandle, CastPolicy>& policies() {
  static auto* table = new std::unordered_map<c10::OperatorHandle, CastPolicy>();
  return *table;
}

bool eligible(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kHpu && tensor.is_floating_point() &&
         tensor.scalar_type() != at::kDouble;
}

template <typename Visit>
void for_each_tensor(c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    value = visit(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const auto& tensor : value.toTensorVector()) list.push_back(visit(tensor));
    value = std::move(list);
  }
}

void autocast(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const CastPolicy policy = policies().at(op);
  const size_t count = op.schema().arguments().size();
  const size_t base = stack->size() - count;
  auto target = policy == CastPolicy::Float32 ? at::kFloat : at::autocast::get_autocast_dtype(kHpu);
  if (policy == CastPolicy::Promote) {
    for (size_t i = base; i < stack->size(); ++i)
      for_each_tensor((*stack)[i], [&](const at::Tensor& tensor) {
        if (eligible(tensor)) target = c10::promoteTypes(target, tensor.scalar_type());
        return tensor;
      });
  }
  const size_t end = policy == CastPolicy::LowerFirst ? base + 1 : stack->size();
  for (size_t i = base; i < end; ++i)
    for_each_tensor((*stack)[i], [&](const at::Tensor& tensor) {
      return eligible(tensor) && tensor.scalar_type() != target ? tensor.to(target) : tensor;
    });
  op.callBoxed(stack);
}

}  // namespace

void set_cast_policy(const std::string& name, const std::string& overload, CastPolicy policy) {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutocastPrivateUse1,
                                            __FILE__, __LINE__);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  const bool fresh = policies().emplace(op, policy).second;
  if (!fresh) {
    policies()[op] = policy;
    return;
  }
  const auto full = overload.empty() ? name : name + "." + overload;
  library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&autocast>());
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) { library.fallback(torch::CppFunction::makeFallthrough()); }

}  // namespace hpu
