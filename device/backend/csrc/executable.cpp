#include "executable.h"

#include "constant.h"

#include "narrow.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>

#include <condition_variable>
#include <mutex>

namespace hpu {
namespace {

// Recipes run in the order in which their graphs ended, whichever thread brings them.
class Turnstile {
 public:
  void enter(uint64_t ticket) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return serving_ == ticket; });
  }
  void leave() {
    std::lock_guard<std::mutex> lock(mutex_);
    ++serving_;
    changed_.notify_all();
  }
  bool passed(uint64_t count) {
    std::lock_guard<std::mutex> lock(mutex_);
    return serving_ >= count;
  }
  void wait_passed(uint64_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return serving_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t serving_ = 0;
};

Turnstile& turnstile() {
  static auto* instance = new Turnstile();
  return *instance;
}

bool covers(const Window& window, size_t nbytes) {
  int64_t elements = 1;
  for (auto size : window.sizes) elements *= size;
  return window.offset == 0 && static_cast<size_t>(elements) * c10::elementSize(window.dtype) == nbytes;
}

// The results of the nodes from `first` on will never have a value; tensors that had one keep it.
void lose(Recording& recording, size_t first, const std::string& why) {
  const auto reason = std::make_shared<const std::string>(why);
  for (size_t n = first; n < recording.nodes.size(); ++n) {
    const auto& node = recording.nodes[n];
    for (uint32_t i = node.results_begin; i < node.results_end; ++i) {
      const int buffer = recording.results[i].buffer;
      if (buffer >= 0 && !recording.buffers[buffer].resident) recording.buffers[buffer].block->lost = reason;
    }
  }
}

}  // namespace

Executable::Executable(const Recording& recording) {
  for (const auto& buffer : recording.buffers)
    storages_.push_back(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), buffer.nbytes,
                                                              c10::DataPtr(nullptr, c10::Device(c10::kCPU)),
                                                              /*allocator=*/nullptr, /*resizable=*/false));
  auto view = [&](const TensorRef& ref) {
    if (ref.buffer < 0) return at::Tensor();
    const auto& window = recording.windows[ref.window];
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storages_[ref.buffer]),
                                                           c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                           c10::scalarTypeToTypeMeta(window.dtype));
    tensor.unsafeGetTensorImpl()->set_storage_offset(window.offset);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(window.sizes, window.strides);
    return tensor;
  };
  std::vector<int> last_use(recording.buffers.size(), -1);
  std::vector<char> has_memory(recording.buffers.size(), 0);
  for (size_t i = 0; i < recording.buffers.size(); ++i) has_memory[i] = recording.buffers[i].resident;

  for (const auto& node : recording.nodes) {
    Step step;
    step.op = node.op;
    step.seed = node.seed;
    const int number = static_cast<int>(steps_.size());
    auto use = [&](const TensorRef& ref) {
      if (ref.buffer < 0) return;
      last_use[ref.buffer] = number;
      if (has_memory[ref.buffer]) return;
      has_memory[ref.buffer] = 1;
      step.acquire.push_back(ref.buffer);
    };
    for (uint32_t i = node.arguments_begin; i < node.arguments_end; ++i) {
      const auto& argument = recording.arguments[i];
      switch (argument.kind) {
        case Argument::Kind::Value:
          step.arguments.push_back(argument.value.isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : argument.value);
          break;
        case Argument::Kind::Seed:
          step.arguments.emplace_back();
          break;
        case Argument::Kind::Param:
          step.patches.push_back({static_cast<int>(i - node.arguments_begin), argument.param});
          step.arguments.emplace_back();
          break;
        case Argument::Kind::Tensor:
          use(argument.ref);
          step.arguments.emplace_back(view(argument.ref));
          if (argument.ref.buffer >= 0 && contains(node.op->written, i - node.arguments_begin) &&
              step.arguments.back().toTensor().nbytes() >= kLarge)
            step.large_writes.push_back(argument.ref.buffer);
          break;
        case Argument::Kind::TensorList: {
          for (const auto& ref : argument.refs) use(ref);
          if (argument.optional_list) {
            c10::List<std::optional<at::Tensor>> list;
            for (const auto& ref : argument.refs)
              list.push_back(ref.buffer < 0 ? std::nullopt : std::optional<at::Tensor>(view(ref)));
            step.arguments.emplace_back(std::move(list));
          } else {
            c10::List<at::Tensor> list;
            for (const auto& ref : argument.refs) list.push_back(view(ref));
            step.arguments.emplace_back(std::move(list));
          }
          break;
        }
      }
    }
    // New tensors, in the order in which they were recorded.
    uint32_t next = node.results_begin;
    const bool single_list = node.op->returns.size() == 1 && node.op->list_return[0];
    for (size_t r = 0; r < node.op->returns.size() && next < node.results_end; ++r) {
      if (node.op->returns[r] >= 0) continue;
      const uint32_t items = single_list ? node.results_end - node.results_begin : 1;
      for (uint32_t item = 0; item < items; ++item, ++next) {
        const auto& ref = recording.results[next];
        if (ref.buffer < 0) continue;
        last_use[ref.buffer] = number;
        has_memory[ref.buffer] = 1;
        step.results.push_back({static_cast<int>(r), node.op->list_return[r] ? static_cast<int>(item) : -1, ref.buffer,
                                view(ref), covers(recording.windows[ref.window], recording.buffers[ref.buffer].nbytes)});
      }
    }
    auto written = [&](const at::Tensor& window) {
      if (window.defined() && needs_narrowing(*node.op, window, step.arguments)) step.narrow.push_back(window);
    };
    for (int position : node.op->written) {
      const auto& value = step.arguments[position];
      if (value.isTensor()) written(value.toTensor());
      else if (value.isTensorList())
        for (const auto& window : value.toTensorVector()) written(window);
    }
    for (const auto& result : step.results) written(result.window);
    step.limits = !step.narrow.empty() && limits_range(*node.op);
    if (!step.large_writes.empty() && step.narrow.empty() && is_fill(node.op->name)) {
      const auto& target = step.arguments[0].toTensor();
      const int buffer = step.large_writes[0];
      if (target.is_contiguous() && target.storage_offset() == 0 && target.nbytes() == recording.buffers[buffer].nbytes)
        step.constant = buffer;
    }
    steps_.push_back(std::move(step));
  }
  for (size_t i = 0; i < recording.buffers.size(); ++i)
    if (!recording.buffers[i].live && last_use[i] >= 0) steps_[last_use[i]].release.push_back(static_cast<int>(i));
}

void Executable::bind(Recording& recording, int buffer) {
  Block& block = *recording.buffers[buffer].block;
  require_value(block);
  ensure_host(block);
  storages_[buffer]->set_data_ptr_noswap(c10::DataPtr(block.host, c10::Device(c10::kCPU)));
}

void Executable::call(Recording& recording, const Step& step, torch::jit::Stack& stack) {
  try {
    if (step.seed >= 0) call_seeded(*step.op, stack, recording.params[step.seed].toInt());
    else call_kernel(*step.op, stack);
  } catch (c10::Error& error) {
    error.add_context("while the card ran " + step.op->name);
    throw;
  }
}

void Executable::run_step(Recording& recording, Step& step, torch::jit::Stack& stack) {
  stack.assign(step.arguments.begin(), step.arguments.end());
  for (const auto& patch : step.patches) stack[patch.argument] = recording.params[patch.param];
  if (step.constant >= 0 && hold_constant(*recording.buffers[step.constant].block, stack)) {
    bind(recording, step.constant);
  } else {
    for (int buffer : step.acquire) bind(recording, buffer);
    for (int buffer : step.large_writes) require_pages(*recording.buffers[buffer].block);
    call(recording, step, stack);
  }
  for (auto& result : step.results) {
    at::Tensor value;
    if (result.item < 0) {
      value = std::move(stack[result.position]).toTensor();
    } else {
      value = stack[result.position].toTensorList().get(result.item);
    }
    // Some kernels leave early where there is nothing to do, with a result of another type.
    if (value.numel() == 0) value = value.to(result.window.dtype());
    TORCH_INTERNAL_ASSERT(value.sizes() == result.window.sizes() && value.dtype() == result.window.dtype(),
                          step.op->name, " gave ", value.dtype(), value.sizes(), " where ", result.window.dtype(),
                          result.window.sizes(), " was announced");
    Block& block = *recording.buffers[result.buffer].block;
    block.lost.reset();
    if (result.whole && result.item < 0 && value.storage_offset() == 0 && value.strides() == result.window.strides() &&
        value.storage().use_count() == 1 && value.storage().resizable() && value.storage().nbytes() >= block.nbytes &&
        block.nbytes > 0) {
      adopt_host(block, value.storage().unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr()));
      bind(recording, result.buffer);
    } else {
      bind(recording, result.buffer);
      result.window.copy_(value);
    }
  }
  for (const auto& window : step.narrow) narrow(window, step.limits, step.op->name);
  for (int buffer : step.release) {
    storages_[buffer]->set_data_ptr_noswap(c10::DataPtr(nullptr, c10::Device(c10::kCPU)));
    if (!recording.buffers[buffer].resident) release_host(*recording.buffers[buffer].block);
  }
}

void Executable::execute(Recording& recording) {
  c10::impl::ExcludeDispatchKeyGuard no_modes(c10::python_ks);  // of PyTorch: they have seen the operator on hpu
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  for (size_t i = 0; i < storages_.size(); ++i) {
    const auto& buffer = recording.buffers[i];
    TORCH_CHECK(buffer.block->nbytes == buffer.nbytes, "memory of a captured graph was resized after the capture, from ",
                buffer.nbytes, " to ", buffer.block->nbytes, " bytes; capture the graph again, or resize it back");
    if (buffer.resident) bind(recording, static_cast<int>(i));
  }
  torch::jit::Stack stack;
  for (auto& step : steps_) {
    try {
      run_step(recording, step, stack);
    } catch (const c10::Error& error) {
      lose(recording, static_cast<size_t>(&step - steps_.data()), error.what_without_backtrace());
      throw;
    } catch (const std::exception& error) {
      lose(recording, static_cast<size_t>(&step - steps_.data()), error.what());
      throw;
    }
  }
}

void settle() {
  const uint64_t count = tickets();
  if (turnstile().passed(count)) return;
  pybind11::gil_scoped_release no_gil;
  turnstile().wait_passed(count);
}

void Executable::abandon(Recording& recording, const std::string& why) {
  pybind11::gil_scoped_release no_gil;
  turnstile().enter(recording.ticket);
  if (!why.empty()) lose(recording, 0, why);
  turnstile().leave();
}

void Executable::run(Recording& recording) {
  Inside inside;
  pybind11::gil_scoped_release no_gil;
  turnstile().enter(recording.ticket);
  struct Leave {
    Executable& executable;
    ~Leave() {
      for (auto& storage : executable.storages_)
        storage->set_data_ptr_noswap(c10::DataPtr(nullptr, c10::Device(c10::kCPU)));
      turnstile().leave();
    }
  } leave{*this};
  if (numerics()) execute(recording);
}

}  // namespace hpu
