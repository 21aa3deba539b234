#include "recorder.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/TensorImpl.h>

#include <unordered_set>

namespace hpu {
namespace {

uint64_t next_epoch = 1;
uint64_t next_ticket = 0;
std::shared_ptr<Recording> active;
std::unordered_set<Hash, HashOf>& known_prefixes() {
  static auto* known = new std::unordered_set<Hash, HashOf>();
  return *known;
}

uint32_t touch(Recording& recording, const at::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  TORCH_CHECK(owns_block(*storage), "a tensor over a bare hpu pointer can only be copied to the host; clone the tensor "
              "that owns the memory");
  Block* block = block_of(*storage);
  if (block->epoch != recording.epoch) {
    block->epoch = recording.epoch;
    block->slot = static_cast<uint32_t>(recording.buffers.size());
    recording.buffers.push_back({c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage), block, block->nbytes,
                                 block->resident, false});
  }
  return block->slot;
}

TensorRef refer(Recording& recording, Hash& hash, const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  TensorRef ref;
  ref.buffer = static_cast<int32_t>(touch(recording, tensor));
  ref.window = static_cast<int32_t>(recording.windows.size());
  recording.windows.emplace_back();
  auto& window = recording.windows.back();
  window.dtype = tensor.scalar_type();
  window.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  window.strides.assign(tensor.strides().begin(), tensor.strides().end());
  window.offset = tensor.storage_offset();
  hash.mix(static_cast<uint64_t>(ref.buffer));
  hash.mix(recording.buffers[ref.buffer].nbytes);
  return ref;
}

int32_t add_param(Recording& recording, c10::IValue value) {
  recording.params.push_back(std::move(value));
  return static_cast<int32_t>(recording.params.size()) - 1;
}

// A number as it is now: the script may change the tensor before the graph runs.
at::Tensor host_number(const at::Tensor& tensor) {
  // A Python number cannot change, and must stay one: it does not decide the type of a result. Of a compiled program the
  // number may be an argument, which is known by its memory.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() || one_by_one()) return tensor.detach();
  c10::impl::ExcludeDispatchKeyGuard no_modes(c10::python_ks);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return tensor.clone();
}

void encode(Recording& recording, Hash& hash, const OpInfo& info, size_t position, const c10::IValue& value) {
  Argument argument;
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    if (tensor.defined() && !on_card(tensor)) {
      argument.kind = Argument::Kind::Param;
      argument.param = add_param(recording, host_number(tensor));
    } else {
      argument.kind = Argument::Kind::Tensor;
      argument.ref = refer(recording, hash, tensor);
    }
  } else if (value.isTensorList()) {
    argument.kind = Argument::Kind::TensorList;
    for (const auto& tensor : value.toTensorVector()) argument.refs.push_back(refer(recording, hash, tensor));
  } else if (value.isOptionalTensorList()) {
    argument.kind = Argument::Kind::TensorList;
    argument.optional_list = true;
    for (const auto& item : value.toOptionalTensorVector())
      argument.refs.push_back(item.has_value() ? refer(recording, hash, *item) : TensorRef{});
  } else if (contains(info.scalars, position)) {
    argument.kind = Argument::Kind::Param;
    argument.param = add_param(recording, value);
  } else if (value.isGenerator()) {
    argument.kind = Argument::Kind::Seed;
  } else {
    argument.value = value;
  }
  recording.arguments.push_back(std::move(argument));
}

// CPU tensors among the arguments: index tensors travel to the card, others but numbers are the user's mistake.
void admit_host_tensors(const OpInfo& info, torch::jit::Stack* stack) {
  auto arguments = torch::jit::last(*stack, info.arguments);
  auto admit = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || on_card(tensor)) return tensor;
    if (tensor.device().is_cpu() && tensor.dim() == 0) return tensor;
    TORCH_CHECK(info.takes_host_tensors && tensor.device().is_cpu(),
                "Expected all tensors to be on the same device, but found at least two devices, hpu:0 and ",
                tensor.device(), "! (operator ", info.name, "; move the tensor with .to(\"hpu\"))");
    return tensor.to(c10::Device(kHpu, 0));
  };
  for (size_t i = 0; i < info.arguments; ++i) {
    const c10::IValue& value = arguments[i];
    auto& slot = (*stack)[stack->size() - info.arguments + i];
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      if (tensor.defined() && !on_card(tensor)) {
        TORCH_CHECK(!contains(info.written, i), info.name, " cannot write to a ", tensor.device(),
                    " tensor from an hpu operand; move one of them");
        slot = admit(tensor);
      }
    } else if (info.takes_host_tensors && value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& item : value.toOptionalTensorVector()) {
        // A number used as an index is an index tensor, too: its value is not part of the arithmetic.
        if (item.has_value() && item->defined() && !on_card(*item)) list.push_back(item->to(c10::Device(kHpu, 0)));
        else list.push_back(item);
      }
      slot = list;
    } else if (value.isTensorList()) {
      for (const auto& tensor : value.toTensorVector())
        TORCH_CHECK(!tensor.defined() || on_card(tensor), "Expected all tensors to be on the same device, but found ",
                    "at least two devices, hpu:0 and ", tensor.device(), "! (operator ", info.name, ")");
    }
  }
}

// An out= tensor of another shape is resized, as everywhere in PyTorch.
void resize_outs(const OpInfo& info, const ResultShapes& shapes, const torch::jit::Stack& stack) {
  for (size_t k = 0; k < info.outs.size(); ++k) {
    const auto& value = stack[stack.size() - info.arguments + info.outs[k]];
    if (!value.isTensor()) continue;
    const auto& out = value.toTensor();
    const auto& shape = shapes[info.returns.size() + k];
    if (shape.empty() || !shape[0].defined || out.sizes() == at::IntArrayRef(shape[0].window.sizes)) continue;
    out.resize_(shape[0].window.sizes);
    if (out.strides() != at::IntArrayRef(shape[0].window.strides))
      out.unsafeGetTensorImpl()->set_sizes_and_strides(shape[0].window.sizes, shape[0].window.strides);
  }
}

}  // namespace

Recording::Recording() : epoch(next_epoch++) {}

Recording& current() {
  if (!active) active = std::make_shared<Recording>();
  return *active;
}

bool pending(const c10::StorageImpl& storage) { return active && block_of(storage)->epoch == active->epoch; }

void end(Recording& recording) {
  for (size_t slot = 0; slot < recording.buffers.size(); ++slot) {
    auto& buffer = recording.buffers[slot];
    buffer.live = buffer.storage.use_count() > 1;
    recording.hash.mix(buffer.live * 2 + buffer.resident);
    if (buffer.live || buffer.resident) make_resident(*buffer.block, static_cast<int64_t>(slot));
  }
  recording.ticket = next_ticket++;
}

std::shared_ptr<Recording> take() {
  auto recording = active ? active : std::make_shared<Recording>();
  active.reset();
  end(*recording);
  return recording;
}

uint64_t tickets() { return next_ticket; }

std::optional<at::Generator> generator_of(const Generators& generators, int seed) {
  const auto own = generators.find(seed);
  return own == generators.end() ? std::nullopt : std::optional(own->second);
}

void renew(Recording& recording) {
  for (const auto& node : recording.nodes)
    if (node.seed >= 0) recording.params[node.seed] = draw_seed(generator_of(recording.generators, node.seed));
  recording.ticket = next_ticket++;
}

void remember(const Recording& recording) {
  auto& known = known_prefixes();
  for (const auto& node : recording.nodes) known.insert(node.hash);
}

at::Tensor new_tensor(c10::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides) {
  check_dtype(dtype);
  return at::detail::empty_strided_generic(sizes, strides, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype);
}

void record(OpInfo& info, torch::jit::Stack* stack) {
  if (info.run != OpInfo::Run::Record) {
    run_immediately(info, stack);
    return;
  }
  admit_host_tensors(info, stack);
  check_mixed(info, *stack);
  const Hash key = key_of(info, *stack);
  std::shared_ptr<const ResultShapes> shapes;
  if (info.predicts) {
    shapes = predict(info, key, *stack);
    if (!shapes) {
      run_immediately(info, stack);
      return;
    }
    resize_outs(info, *shapes, *stack);
  }

  std::vector<c10::IValue> outputs;
  {
    auto& recording = current();
    Node node;
    node.op = &info;
    node.arguments_begin = static_cast<uint32_t>(recording.arguments.size());
    Hash wiring = recording.hash;
    wiring.mix(key);
    const auto arguments = torch::jit::last(*stack, info.arguments);
    for (size_t i = 0; i < info.arguments; ++i) encode(recording, wiring, info, i, arguments[i]);
    node.arguments_end = static_cast<uint32_t>(recording.arguments.size());
    if (info.draws(arguments)) {
      std::optional<at::Generator> generator;
      if (info.generator >= 0 && arguments[info.generator].isGenerator())
        generator = arguments[info.generator].toGenerator();
      node.seed = add_param(recording, draw_seed(generator));
      if (generator) recording.generators.emplace(node.seed, *generator);
    }
    node.results_begin = static_cast<uint32_t>(recording.results.size());
    for (size_t r = 0; r < info.returns.size(); ++r) {
      if (info.returns[r] >= 0) {
        outputs.push_back(arguments[info.returns[r]]);
        continue;
      }
      c10::List<at::Tensor> list;
      at::Tensor single;
      for (const auto& shape : (*shapes)[r]) {
        at::Tensor tensor;
        if (shape.defined) tensor = new_tensor(shape.window.dtype, shape.window.sizes, shape.window.strides);
        recording.results.push_back(refer(recording, wiring, tensor));
        if (info.list_return[r]) list.push_back(tensor);
        single = std::move(tensor);
      }
      if (info.list_return[r]) outputs.emplace_back(std::move(list));
      else outputs.emplace_back(std::move(single));
    }
    node.results_end = static_cast<uint32_t>(recording.results.size());
    node.hash = wiring;
    recording.hash = wiring;
    if (!known_prefixes().count(wiring)) {
      node.location = static_cast<int32_t>(recording.locations.size());
      recording.locations.emplace_back();
    }
    recording.nodes.push_back(node);
    if (node.location >= 0) {
      // Python may let another thread in, which may end this graph: hold it.
      auto held = active;
      auto location = call_locate();
      held->locations[node.location] = std::move(location);
    }
  }
  torch::jit::drop(*stack, info.arguments);
  for (auto& output : outputs) stack->push_back(std::move(output));
  if (record_notifies()) call_recorded();
}

void record_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Inside inside;
  Gil gil;
  record(op_info(op), stack);
}

}  // namespace hpu
