#include "cluster.h"

#include "random.h"

#include <c10/core/TensorImpl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <unordered_map>

namespace py = pybind11;

namespace hpu {
namespace {

const at::Tensor* tensor_in(PyObject* object) { return THPVariable_Check(object) ? &THPVariable_Unpack(object) : nullptr; }

c10::StorageImpl* storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

bool plain(const at::Tensor& tensor) { return tensor.defined() && tensor.layout() == at::kStrided && tensor.has_storage(); }

Window window_of(const at::Tensor& tensor) {
  Window window;
  window.dtype = tensor.scalar_type();
  window.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  window.strides.assign(tensor.strides().begin(), tensor.strides().end());
  window.offset = tensor.storage_offset();
  return window;
}

// A tensor like the one that was seen: a window of a storage.
at::Tensor look_at(const c10::intrusive_ptr<c10::StorageImpl>& storage, const Window& window) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage),
                                                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                         c10::scalarTypeToTypeMeta(window.dtype));
  tensor.unsafeGetTensorImpl()->set_storage_offset(window.offset);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(window.sizes, window.strides);
  return tensor;
}

// What a recording depends on about its inputs: layouts, which share a storage, and the values of plain numbers. None
// where there is something else among them.
py::object input_key(const py::list& inputs) {
  Hash key;
  std::unordered_map<const void*, uint64_t> storages;
  for (const auto& item : inputs) {
    PyObject* object = item.ptr();
    if (const auto* tensor = tensor_in(object)) {
      if (!plain(*tensor)) return py::none();
      const bool card = on_card(*tensor);
      key.mix(0x41 + card + (static_cast<uint64_t>(tensor->scalar_type()) << 8) +
              (static_cast<uint64_t>(tensor->dim()) << 16) +
              (static_cast<uint64_t>(tensor->unsafeGetTensorImpl()->is_wrapped_number()) << 24));
      for (auto size : tensor->sizes()) key.mix(static_cast<uint64_t>(size));
      for (auto stride : tensor->strides()) key.mix(static_cast<uint64_t>(stride));
      key.mix(static_cast<uint64_t>(tensor->storage_offset()));
      key.mix(storages.emplace(storage_of(*tensor), storages.size()).first->second);
      if (card) key.mix(storage_of(*tensor)->nbytes());
    } else if (object == Py_None) {
      key.mix(0x51);
    } else if (PyBool_Check(object)) {
      key.mix(object == Py_True ? 0x52 : 0x53);
    } else if (PyLong_Check(object)) {
      int overflow = 0;
      const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
      if (overflow) return py::none();
      key.mix(0x54);
      key.mix(static_cast<uint64_t>(value));
    } else if (PyFloat_Check(object)) {
      const double value = PyFloat_AS_DOUBLE(object);
      uint64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      key.mix(0x55);
      key.mix(bits);
    } else {
      return py::none();
    }
  }
  return py::str(key.hex());
}

}  // namespace

Cluster::Cluster(const std::shared_ptr<Recording>& recording, const py::list& inputs, const py::sequence& outputs) {
  std::unordered_map<const c10::StorageImpl*, int> given;
  std::unordered_map<const void*, int> on_host;
  std::unordered_map<const c10::TensorImpl*, int> same;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* tensor = tensor_in(inputs[i].ptr());
    if (!tensor) continue;
    same.emplace(tensor->unsafeGetTensorImpl(), static_cast<int>(i));
    if (on_card(*tensor)) given.emplace(storage_of(*tensor), static_cast<int>(i));
    else on_host.emplace(storage_of(*tensor), static_cast<int>(i));
  }
  std::unordered_map<const c10::StorageImpl*, int> slots;
  if (recording) {
    hash_ = recording->nodes.back().hash;
    for (size_t slot = 0; slot < recording->buffers.size(); ++slot) {
      const auto& buffer = recording->buffers[slot];
      Source source;
      source.nbytes = buffer.nbytes;
      const auto found = given.find(buffer.storage.get());
      if (found != given.end()) source.input = found->second;
      else if (buffer.resident) source.held = buffer.storage;
      slots.emplace(buffer.storage.get(), static_cast<int>(slot));
      sources_.push_back(std::move(source));
    }
    params_ = recording->params;
    for (const auto& node : recording->nodes)
      if (node.seed >= 0) seeds_.push_back(node.seed);
    generators_ = recording->generators;
    for (size_t p = 0; p < params_.size(); ++p) {
      if (!params_[p].isTensor()) continue;
      const auto found = on_host.find(storage_of(params_[p].toTensor()));
      if (found == on_host.end()) continue;
      given_.emplace_back(static_cast<int>(p), found->second);
      params_[p] = c10::IValue();
    }
  }
  for (const auto& item : outputs) {
    Output output;
    const auto* tensor = tensor_in(item.ptr());
    if (!tensor) {
      output.value = py::reinterpret_borrow<py::object>(item);
    } else if (const auto input = same.find(tensor->unsafeGetTensorImpl()); input != same.end()) {
      output.kind = Output::Kind::Same;
      output.index = input->second;
    } else {
      if (!on_card(*tensor) || !plain(*tensor)) throw py::value_error("an output is not on the card");
      output.window = window_of(*tensor);
      const auto of_input = given.find(storage_of(*tensor));
      const auto of_buffer = slots.find(storage_of(*tensor));
      if (of_input != given.end()) {
        output.kind = Output::Kind::OfInput;
        output.index = of_input->second;
      } else if (of_buffer != slots.end()) {
        output.kind = Output::Kind::OfBuffer;
        output.index = of_buffer->second;
      } else {
        throw py::value_error("an output lies in memory that the piece does not use");
      }
    }
    outputs_.push_back(std::move(output));
  }
}

py::tuple Cluster::lay(const py::list& inputs) const {
  std::shared_ptr<Recording> recording;
  if (!sources_.empty()) {
    recording = std::make_shared<Recording>();
    recording->hash = hash_;
    recording->buffers.reserve(sources_.size());
    for (const auto& source : sources_) {
      c10::intrusive_ptr<c10::StorageImpl> storage = source.held;
      if (source.input >= 0)
        storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage_of(*tensor_in(inputs[source.input].ptr())));
      else if (!storage)
        storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), source.nbytes,
                                                        allocator()->allocate(source.nbytes), allocator(), true);
      Block* block = block_of(*storage);
      block->epoch = recording->epoch;
      block->slot = static_cast<uint32_t>(recording->buffers.size());
      recording->buffers.push_back({std::move(storage), block, block->nbytes, block->resident, false});
    }
    recording->params = params_;
    for (int seed : seeds_) recording->params[seed] = draw_seed(generator_of(generators_, seed));
    for (const auto& [param, input] : given_) recording->params[param] = tensor_in(inputs[input].ptr())->detach();
  }
  py::list outputs;
  for (const auto& output : outputs_) {
    switch (output.kind) {
      case Output::Kind::Same: outputs.append(inputs[output.index]); break;
      case Output::Kind::Value: outputs.append(output.value); break;
      case Output::Kind::OfInput:
        outputs.append(look_at(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
                                   storage_of(*tensor_in(inputs[output.index].ptr()))), output.window));
        break;
      case Output::Kind::OfBuffer:
        outputs.append(look_at(recording->buffers[output.index].storage, output.window));
        break;
    }
  }
  if (recording) end(*recording);
  return py::make_tuple(recording, outputs);
}

void bind_cluster(py::module_& module) {
  module.def("input_key", &input_key);
  py::class_<Cluster, std::shared_ptr<Cluster>>(module, "Cluster")
      .def(py::init<const std::shared_ptr<Recording>&, const py::list&, const py::sequence&>())
      .def("lay", &Cluster::lay);
}

}  // namespace hpu
