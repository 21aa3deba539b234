// The card's memory seen from the host: aliases, results that move in, operators that run at once.
#include "arguments.h"
#include "narrow.h"
#include "recorder.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace hpu {

// A CPU tensor over the same bytes; it keeps the storage alive.
at::Tensor host_alias(const at::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  Block& block = *block_of(*storage);
  require_value(block);
  ensure_host(block);
  auto* held = new c10::Storage(tensor.storage());
  c10::DataPtr data(block.host, held, [](void* context) { delete static_cast<c10::Storage*>(context); },
                    c10::Device(c10::DeviceType::CPU));
  auto host = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), block.nbytes, std::move(data),
                                                    /*allocator=*/nullptr, /*resizable=*/false);
  auto alias = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(host)),
                                                        c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  alias.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return alias;
}

void require_residency(const at::Tensor& tensor) { make_resident(*block_of(*tensor.storage().unsafeGetStorageImpl())); }

// Moves a CPU result into an hpu tensor: without a copy where the layouts agree and nobody else holds the bytes.
void place_result(const at::Tensor& result, const at::Tensor& destination) {
  if (result.numel() == 0) return;
  Block& block = *block_of(*destination.storage().unsafeGetStorageImpl());
  const bool whole = destination.storage_offset() == 0 && result.storage_offset() == 0 &&
                     result.strides() == destination.strides() && result.storage().nbytes() >= block.nbytes;
  if (whole && result.storage().use_count() == 1 && result.storage().resizable()) {
    adopt_host(block, result.storage().unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr()));
  } else {
    host_alias(destination).copy_(result);
  }
}

namespace {

at::Tensor to_host_tensor(const at::Tensor& tensor) {
  return tensor.defined() && on_card(tensor) ? host_alias(tensor) : tensor;
}

at::Tensor to_card(const OpInfo& info, const at::Tensor& result, int64_t* nbytes) {
  if (!result.defined()) return result;
  check_dense(result, info.name);
  narrow(result, /*limit=*/false, info.name);
  auto tensor = new_tensor(result.scalar_type(), result.sizes(), result.strides());
  place_result(result, tensor);
  require_residency(tensor);
  *nbytes += static_cast<int64_t>(tensor.nbytes());
  return tensor;
}

// Without numerics values are zero; as pivots or indices counted from 1 that would be an error.
at::Tensor to_valid_integers(const at::Tensor& tensor) {
  if (!tensor.defined() || !on_card(tensor) || !c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/false))
    return to_host_tensor(tensor);
  at::Tensor ones = at::detail::empty_cpu(tensor.sizes(), tensor.options().device(c10::kCPU));
  ones.fill_(1);
  return ones;
}

}  // namespace

// Operators whose result's shape depends on data, that return no tensor, or that the card lacks: pending work is
// flushed, the operator runs now, and its results are on the card.
void run_immediately(OpInfo& info, torch::jit::Stack* stack) {
  call_flush(info.name.c_str());
  settle();
  Inside inside;
  int64_t read = 0;
  std::vector<c10::IValue> arguments;
  for (const auto& value : torch::jit::last(*stack, info.arguments)) arguments.push_back(value);
  torch::jit::Stack host;
  Hash key = info.hash;
  const bool made_up = !numerics() && info.run == OpInfo::Run::HostFallback && info.written.size() == info.outs.size();
  for (const auto& value : arguments) {
    host.push_back(map_argument(value, c10::Device(c10::kCPU), made_up ? to_valid_integers : to_host_tensor));
    if (value.isTensor() && value.toTensor().defined()) {
      key.mix(static_cast<uint64_t>(value.toTensor().scalar_type()));
      for (auto size : value.toTensor().sizes()) key.mix(static_cast<uint64_t>(size));
      if (on_card(value.toTensor())) read += static_cast<int64_t>(value.toTensor().nbytes());
    }
  }
  // An out= tensor may be resized: let the operator fill one of its own, and move that in.
  for (int position : info.outs)
    if (arguments[position].isTensor())
      host[position] = at::detail::empty_cpu({0}, arguments[position].toTensor().options().device(c10::kCPU));
  std::vector<c10::IValue> host_outs;
  for (int position : info.outs) host_outs.push_back(host[position]);
  {
    c10::impl::ExcludeDispatchKeyGuard no_modes(c10::python_ks);  // of PyTorch: they have seen the operator on hpu
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    if (info.draws(arguments)) {
      std::optional<at::Generator> generator;
      if (info.generator >= 0 && arguments[info.generator].isGenerator())
        generator = arguments[info.generator].toGenerator();
      call_seeded(info, host, draw_seed(generator));
    } else {
      // On the host itself, an operator that the card lacks is what the CPU makes of it.
      if (info.run == OpInfo::Run::HostFallback) info.handle.callBoxed(host);
      else call_kernel(info, host);
    }
  }
  int64_t nbytes = 0;
  for (size_t k = 0; k < info.outs.size(); ++k) {
    if (!host_outs[k].isTensor()) continue;
    const auto& result = host_outs[k].toTensor();
    const auto& out = arguments[info.outs[k]].toTensor();
    if (out.sizes() != result.sizes()) {
      int64_t reach = result.numel() > 0;
      for (int64_t i = 0; i < result.dim(); ++i) reach += (result.size(i) - 1) * result.stride(i) * (result.numel() > 0);
      out.resize_({reach});
      out.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides());
    }
    const auto filled = host_alias(out);
    filled.copy_(result);
    narrow(filled, /*limit=*/false, info.name);
    require_residency(out);
  }
  torch::jit::drop(*stack, info.arguments);
  for (size_t r = 0; r < info.returns.size(); ++r) {
    auto& value = host[r];
    if (info.returns[r] >= 0) {
      stack->push_back(arguments[info.returns[r]]);
    } else if (value.isTensor()) {
      // Take the result off the stack, so that nobody else holds its bytes.
      at::Tensor result = std::move(value).toTensor();
      stack->push_back(to_card(info, result, &nbytes));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& result : value.toTensorVector()) list.push_back(to_card(info, result, &nbytes));
      stack->push_back(std::move(list));
    } else {
      stack->push_back(std::move(value));
    }
  }
  for (const auto& value : arguments)
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().device().type() == kHpu)
      require_residency(value.toTensor());
  for (int position : info.written)
    if (!contains(info.outs, position) && arguments[position].isTensor() && on_card(arguments[position].toTensor()))
      narrow(host_alias(arguments[position].toTensor()), limits_range(info), info.name);
  key.mix(static_cast<uint64_t>(nbytes));
  call_immediate(info, key, read, nbytes);
}

}  // namespace hpu
