// A recorded piece of a compiled program, to be laid over other tensors of the same layout without recording it again.
#pragma once

#include "recorder.h"

#include <pybind11/pybind11.h>

namespace hpu {

class Cluster {
 public:
  // `inputs` and `outputs`: what the piece was called with and gave: tensors, numbers, None. Right after it was taken.
  Cluster(const std::shared_ptr<Recording>& recording, const pybind11::list& inputs, const pybind11::sequence& outputs);
  // (recording that is ready to run, outputs) over other inputs with the same key.
  pybind11::tuple lay(const pybind11::list& inputs) const;

 private:
  struct Source {
    int input = -1;                                     // the storage of that input,
    c10::intrusive_ptr<c10::StorageImpl> held;          // or one that is always the same,
    size_t nbytes = 0;                                  // or a new one of that size
  };
  struct Output {
    enum class Kind { Same, OfInput, OfBuffer, Value } kind = Kind::Value;
    int index = -1;
    Window window;
    pybind11::object value;
  };

  Hash hash_;
  std::vector<Source> sources_;
  std::vector<c10::IValue> params_;
  std::vector<int> seeds_;                       // parameters that hold a seed ...
  Generators generators_;                        // ... and where those were drawn from
  std::vector<std::pair<int, int>> given_;       // parameters that are inputs on the host: (parameter, input)
  std::vector<Output> outputs_;
};

void bind_cluster(pybind11::module_& module);

}  // namespace hpu
