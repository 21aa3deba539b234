// The Python side of the bridge.
#include "autocast.h"
#include "cluster.h"
#include "executable.h"
#include "narrow.h"
#include "random.h"
#include "recorder.h"
#include "views.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <cstdlib>

namespace py = pybind11;

namespace hpu {

void set_device_count(int count);
void set_initialized();
void guard_unused_key();

Gil::Gil() : state(static_cast<int>(PyGILState_Ensure())) {}
Gil::~Gil() { PyGILState_Release(static_cast<PyGILState_STATE>(state)); }

namespace {

struct Callbacks {
  py::object flush, transfer, immediate, recorded, locate, refuse, guard;
};

Callbacks& callbacks() {
  static auto* instance = new Callbacks();
  return *instance;
}

size_t notify_limit = 0;

const char* dtype_name(c10::ScalarType dtype) { return c10::toString(dtype); }

py::object value_of(const c10::IValue& value) {
  if (value.isInt()) return py::int_(value.toInt());
  if (value.isBool()) return py::bool_(value.toBool());
  if (value.isDouble()) return py::float_(value.toDouble());
  if (value.isString()) return py::str(value.toStringRef());
  if (value.isList()) {
    py::list items;
    for (const c10::IValue& item : value.toList()) items.append(value_of(item));
    return items;
  }
  if (value.isNone() || value.isDevice()) return py::none();
  return py::str(value.tagKind());
}

py::tuple pair(const TensorRef& ref) { return py::make_tuple(ref.buffer, ref.window); }

// (operator, operands [(name, buffer, window)], results [(buffer, window)], written [(buffer, window, out=)],
//  attributes [(name, value)], source line, hash)
py::tuple export_node(const Recording& recording, const Node& node) {
  py::list operands, results, written, attributes;
  const auto& schema = node.op->handle.schema();
  for (uint32_t i = node.arguments_begin; i < node.arguments_end; ++i) {
    const int position = static_cast<int>(i - node.arguments_begin);
    const auto& argument = recording.arguments[i];
    const auto& name = schema.arguments()[position].name();
    auto add = [&](const TensorRef& ref) {
      if (ref.buffer < 0) return;
      operands.append(py::make_tuple(name, ref.buffer, ref.window));
      for (int w : node.op->written)
        if (w == position) written.append(py::make_tuple(ref.buffer, ref.window, schema.arguments()[position].is_out()));
    };
    switch (argument.kind) {
      case Argument::Kind::Tensor: add(argument.ref); break;
      case Argument::Kind::TensorList: for (const auto& ref : argument.refs) add(ref); break;
      case Argument::Kind::Param: attributes.append(py::make_tuple(name, "<tensor>")); break;
      case Argument::Kind::Seed: break;
      case Argument::Kind::Value: attributes.append(py::make_tuple(name, value_of(argument.value))); break;
    }
  }
  for (uint32_t i = node.results_begin; i < node.results_end; ++i)
    if (recording.results[i].buffer >= 0) results.append(pair(recording.results[i]));
  const auto& location = node.location < 0 ? std::string() : recording.locations[node.location];
  return py::make_tuple(node.op->name, operands, results, written, attributes, location, node.hash.hex());
}

py::list export_nodes(const Recording& recording) {
  py::list nodes;
  for (const auto& node : recording.nodes) nodes.append(export_node(recording, node));
  return nodes;
}

py::list export_windows(const Recording& recording) {
  py::list windows;
  for (const auto& window : recording.windows)
    windows.append(py::make_tuple(dtype_name(window.dtype), py::tuple(py::cast(std::vector<int64_t>(window.sizes.begin(), window.sizes.end()))),
                                  py::tuple(py::cast(std::vector<int64_t>(window.strides.begin(), window.strides.end()))),
                                  window.offset));
  return windows;
}

// (bytes, held a value before, is referenced afterwards, device address)
py::list export_buffers(const Recording& recording) {
  py::list buffers;
  for (const auto& buffer : recording.buffers)
    buffers.append(py::make_tuple(buffer.nbytes, buffer.resident, buffer.live, buffer.block->address));
  return buffers;
}

void set_callbacks(py::object flush, py::object transfer, py::object immediate, py::object recorded, py::object locate,
                   py::object refuse, py::object guard) {
  callbacks() = {std::move(flush),  std::move(transfer), std::move(immediate), std::move(recorded),
                 std::move(locate), std::move(refuse),   std::move(guard)};
}

void set_run(const std::string& name, const std::string& overload, const std::string& how) {
  auto& info = op_info(c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str()));
  if (how == "record") info.run = OpInfo::Run::Record;
  else if (how == "immediate") info.run = OpInfo::Run::Immediate;
  else if (how == "host") info.run = OpInfo::Run::HostFallback;
  else throw py::value_error("unknown way to run " + name + ": " + how);
}

// Operators whose composite kernel would take them apart, though the card has them whole.
void record_directly(const std::string& name) {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&record_boxed>());
}

at::Tensor adopt(const at::Tensor& source) {
  TORCH_CHECK(source.device().is_cpu(), "adopt takes a CPU tensor; got one on ", source.device());
  auto tensor = new_tensor(source.scalar_type(), source.sizes(), source.strides());
  host_alias(tensor).copy_(source);
  require_residency(tensor);
  return tensor;
}

bool tensor_pending(const at::Tensor& tensor) { return pending(*tensor.storage().unsafeGetStorageImpl()); }

}  // namespace

void call_flush(const char* reason) { callbacks().flush(reason); }
void call_transfer(const char* direction, const at::Tensor& side, int64_t nbytes, bool pinned, bool non_blocking) {
  const Block& block = *block_of(*side.storage().unsafeGetStorageImpl());
  callbacks().transfer(direction, nbytes, pinned, non_blocking, block.address, block.epoch,
                       c10::toString(side.scalar_type()), py::tuple(py::cast(side.sizes().vec())));
}
void call_immediate(const OpInfo& info, const Hash& key, int64_t read, int64_t written) {
  callbacks().immediate(info.name, key.hex(), read, written, info.run == OpInfo::Run::HostFallback);
}
bool python_runs() { return Py_IsInitialized() != 0; }
double call_guard(const char* what, const std::vector<int64_t>& numbers) {
  const py::object answer = callbacks().guard(what, *py::tuple(py::cast(numbers)));
  return answer.is_none() ? 0 : answer.cast<double>();
}
void call_recorded() { callbacks().recorded(); }
void call_refuse(const std::string& text) {
  Gil gil;
  callbacks().refuse(text);
}
std::string call_locate() { return callbacks().locate().cast<std::string>(); }
bool record_notifies() { return notify_limit && current().nodes.size() >= notify_limit; }
void notify_after(size_t nodes) { notify_limit = nodes; }
bool one_by_one() { return notify_limit == 1; }

}  // namespace hpu

PYBIND11_MODULE(_bridge, module) {
  using namespace hpu;

  py::class_<Recording, std::shared_ptr<Recording>>(module, "Recording")
      .def("__len__", [](const Recording& recording) { return recording.nodes.size(); })
      .def_property_readonly("signature", [](const Recording& recording) { return recording.hash.hex(); })
      .def_property_readonly("params", [](const Recording& recording) { return recording.params.size(); })
      .def("nodes", &export_nodes)
      .def("windows", &export_windows)
      .def("buffers", &export_buffers)
      .def_property_readonly("epoch", [](const Recording& recording) { return recording.epoch; })
      .def("uses", [](const Recording& recording, const std::vector<uint64_t>& addresses) {
        // Those of the addresses that the graph reads or writes.
        std::vector<uint64_t> used;
        for (uint64_t address : addresses) {
          const Block* block = block_at(address);
          if (block && block->epoch == recording.epoch) used.push_back(address);
        }
        return used;
      })
      .def("renew", [](Recording& recording) { renew(recording); })
      .def("remember", [](const Recording& recording) { remember(recording); })
      .def("abandon", &Executable::abandon, py::arg("why") = "");

  py::class_<Executable, std::shared_ptr<Executable>>(module, "Executable")
      .def(py::init<const Recording&>())
      .def("__len__", &Executable::size)
      .def("run", &Executable::run);

  bind_cluster(module);

  module.def("set_callbacks", &set_callbacks, py::arg("flush"), py::arg("transfer"), py::arg("immediate"),
             py::arg("recorded"), py::arg("locate"), py::arg("refuse"), py::arg("guard"));
  module.def("refuse_mixed", &refuse_mixed);
  module.def("measure_inside", &measure_inside);
  module.def("inside_seconds", &inside_seconds);
  module.def("take", &take);
  module.def("recorded", [] { return current().nodes.size(); });
  module.def("notify_after", &notify_after);
  module.def("set_run", &set_run);
  module.def("record_directly", &record_directly);
  module.def("set_device_count", &set_device_count);
  module.def("set_initialized", &set_initialized);
  module.def("guard_unused_key", &guard_unused_key);
  module.def("set_numerics", &set_numerics);
  module.def("host_alias", [](const at::Tensor& tensor) {
    settle();
    return host_alias(tensor);
  });
  module.def("settle", &settle);
  module.def("adopt", &adopt);
  module.def("pending", &tensor_pending);
  module.def("require_residency", &require_residency);
  module.def("drain_memory_events", [] {
    py::list events;
    for (const auto& event : drain_memory_events()) events.append(py::make_tuple(event.address, event.nbytes, event.slot));
    return events;
  });
  module.def("set_narrowing", &set_narrowing, py::arg("integers"), py::arg("check"), py::arg("refuse_wrapping"));
  module.def("set_e4m3_largest", &set_e4m3_largest);
  module.def("refuse_dtype", [](const std::string& name) {
    if (name == "float16") refuse_dtype(c10::ScalarType::Half);
    else if (name == "float8_e4m3fn") refuse_dtype(c10::ScalarType::Float8_e4m3fn);
    else if (name == "float8_e5m2") refuse_dtype(c10::ScalarType::Float8_e5m2);
    else throw py::value_error("no dtype " + name + " to refuse");
  });
  module.def("set_cast_policy", [](const std::string& name, const std::string& overload, const std::string& policy) {
    if (policy == "lower") set_cast_policy(name, overload, CastPolicy::Lower);
    else if (policy == "lower_first") set_cast_policy(name, overload, CastPolicy::LowerFirst);
    else if (policy == "float32") set_cast_policy(name, overload, CastPolicy::Float32);
    else if (policy == "promote") set_cast_policy(name, overload, CastPolicy::Promote);
    else throw py::value_error("unknown autocast policy " + policy);
  });
  module.def("default_generator", [] { return default_generator(); });
}
