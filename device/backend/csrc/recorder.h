// Lazy capture: one node per operator, over strided windows of buffers (hpu storages).
#pragma once

#include "block.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace hpu {

inline bool on_card(const at::Tensor& tensor) { return tensor.device().type() == kHpu; }

// 128-bit running hash; a function of values only, so that it is the same in every process and on every machine.
struct Hash {
  uint64_t a = 0x243F6A8885A308D3ULL;
  uint64_t b = 0x13198A2E03707344ULL;

  void mix(uint64_t value) {
    a = (a ^ value) * 0x9E3779B97F4A7C15ULL;
    a ^= a >> 32;
    b = ((b << 7) | (b >> 57)) ^ (value * 0xC2B2AE3D27D4EB4FULL + a);
    b *= 0xFF51AFD7ED558CCDULL;
  }
  void mix(const Hash& other) {
    mix(other.a);
    mix(other.b);
  }
  bool operator==(const Hash& other) const { return a == other.a && b == other.b; }
  std::string hex() const;
};

struct HashOf {
  size_t operator()(const Hash& hash) const { return hash.a; }
};

// What is fixed about one operator overload.
struct OpInfo {
  enum class Run { Record, Immediate, HostFallback };

  c10::OperatorHandle handle;   // what is replayed on the CPU
  std::string name;             // e.g. "aten::add.out"
  Hash hash;
  size_t arguments = 0;
  Run run = Run::Record;
  bool random = false;
  int chance = -1;  // position of the argument that says whether a random operator draws at all: a flag, a probability
  bool draws(at::ArrayRef<c10::IValue> arguments) const {
    if (!random || chance < 0) return random;
    const auto& value = arguments[chance];
    return value.isBool() ? value.toBool() : value.toDouble() > 0;
  }
  bool takes_host_tensors = false;      // index operators accept CPU index tensors
  int generator = -1;                   // position of the generator argument
  std::vector<int> scalars;             // scalar arguments that are sent as tensors: their value is not in the key ...
  bool unit_scalar_matters = false;     // ... but whether it is 1 changes the operators that the bridge emits
  std::vector<int> outs;                // positions of out= arguments
  std::vector<int> written;             // positions of all mutated arguments
  std::vector<int> returns;             // per return: the argument it aliases, or -1 for a new tensor
  std::vector<char> list_return;        // per return: a list of tensors
  bool predicts = false;                // results or out= arguments need a shape
  std::vector<char> is_index;           // per argument: an index, 32 bits wide on the card, which CPU kernels want in int64
  bool takes_integers = false;          // the card computes it for integers, in float32 cut off to the integer below in magnitude
  std::optional<int> product;           // the matrix engine computes it: position of the operand whose type the result has
                                        // where there are several, or another rule (products.cpp)

  explicit OpInfo(const c10::OperatorHandle& op) : handle(op) {}
};

OpInfo& op_info(const c10::OperatorHandle& op);

inline bool contains(const std::vector<int>& positions, size_t position) {
  for (int candidate : positions)
    if (candidate == static_cast<int>(position)) return true;
  return false;
}

// key.cpp: everything about a call but which buffers its tensors lie in and the values that travel beside the recipe.
Hash key_of(const OpInfo& info, const torch::jit::Stack& stack);

// A strided window of a buffer.
struct Window {
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::SmallVector<int64_t, 5> sizes;
  c10::SmallVector<int64_t, 5> strides;
  int64_t offset = 0;
};

struct TensorRef {
  int32_t buffer = -1;  // -1: undefined tensor (None)
  int32_t window = -1;
};

struct Argument {
  enum class Kind : uint8_t { Value, Tensor, TensorList, Param, Seed };
  Kind kind = Kind::Value;
  bool optional_list = false;
  TensorRef ref;
  std::vector<TensorRef> refs;
  c10::IValue value;
  int32_t param = -1;
};

struct Node {
  const OpInfo* op = nullptr;
  uint32_t arguments_begin = 0, arguments_end = 0;
  uint32_t results_begin = 0, results_end = 0;  // new tensors, in order of the returns, lists flattened
  int32_t seed = -1;                            // parameter that holds the seed of a random operator
  int32_t location = -1;                        // index into Recording::locations, -1 when the graph was known so far
  Hash hash;                                    // of this node and all before it
};

struct Buffer {
  c10::intrusive_ptr<c10::StorageImpl> storage;
  Block* block = nullptr;
  size_t nbytes = 0;
  bool resident = false;  // held a value before the graph
  bool live = false;      // is still referenced from outside when the graph ends
};

// Where seeds, which are parameters, were drawn from, if not from the card's own generator.
using Generators = std::unordered_map<int32_t, at::Generator>;
std::optional<at::Generator> generator_of(const Generators& generators, int seed);

struct Recording {
  uint64_t epoch = 0;
  Hash hash;
  std::vector<Node> nodes;
  std::vector<Argument> arguments;
  std::vector<TensorRef> results;
  std::vector<Window> windows;
  std::vector<Buffer> buffers;
  std::vector<c10::IValue> params;
  Generators generators;
  std::vector<std::string> locations;
  uint64_t ticket = 0;  // order of execution

  Recording();
};

// Everything here is called with the GIL held: it is the lock of the recorder.
Recording& current();
std::shared_ptr<Recording> take();  // ends the current graph
void end(Recording& recording);     // liveness and signature are settled, and its place in the order of execution
bool pending(const c10::StorageImpl& storage);
uint64_t tickets();                 // recordings ended so far that must run
void remember(const Recording& recording);  // its prefixes are known from now on: no source lines are looked up
void renew(Recording& recording);           // for another run of a captured graph: new seeds, its turn in the order

void record(OpInfo& info, torch::jit::Stack* stack);
void record_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void run_immediately(OpInfo& info, torch::jit::Stack* stack);
at::Tensor new_tensor(c10::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides);
void check_dtype(c10::ScalarType dtype);  // raises where the card has no such type
void check_dense(const at::Tensor& result, const std::string& name);  // raises where the card has no such kind of tensor

// shapes.cpp
struct ResultShape {
  bool defined = false;
  Window window;
};
using ResultShapes = std::vector<std::vector<ResultShape>>;  // per return, then per out= argument; lists have several
// Null where the shapes cannot be known before the operator runs.
std::shared_ptr<const ResultShapes> predict(OpInfo& info, const Hash& key, const torch::jit::Stack& stack);

// random.cpp
int64_t draw_seed(const std::optional<at::Generator>& generator);
void call_seeded(const OpInfo& info, torch::jit::Stack& stack, int64_t seed);

// widen.cpp: calls the operator, on wider types where PyTorch has no kernel for those of the arguments
void call_kernel(const OpInfo& info, torch::jit::Stack& stack);
void set_e4m3_largest(double limit);  // what rounding to float8_e4m3fn ends at

// products.cpp: what the matrix engine computes, products and convolutions, also of several floating types
std::optional<int> product_of(const c10::FunctionSchema& schema);  // see OpInfo
bool is_mixed(const OpInfo& info, at::ArrayRef<c10::IValue> arguments);
c10::ScalarType mixed_result(const OpInfo& info, at::ArrayRef<c10::IValue> arguments, size_t result);
void refuse_mixed(bool on);          // the strict switch
void check_mixed(const OpInfo& info, const torch::jit::Stack& stack);

// executable.cpp
void settle();  // waits, without the GIL, until every graph that ended has run

// host.cpp: the card's memory seen from the host
at::Tensor host_alias(const at::Tensor& tensor);
void place_result(const at::Tensor& result, const at::Tensor& destination);
void require_residency(const at::Tensor& tensor);
void require_card();  // what card it is, and what it takes, is known from now on

// callbacks.cpp: what Python decides
void call_flush(const char* reason);
// `side`: the tensor on the card; `pinned`: the host's side is page-locked.
void call_transfer(const char* direction, const at::Tensor& side, int64_t nbytes, bool pinned, bool non_blocking);
void call_immediate(const OpInfo& info, const Hash& key, int64_t read, int64_t written);
void call_recorded();
std::string call_locate();
void call_refuse(const std::string& text);  // raises: the strict switch is on
double call_guard(const char* what, const std::vector<int64_t>& numbers);  // the method of that name in device/marks.py
bool python_runs();
bool record_notifies();
bool one_by_one();                // each operator is a graph of its own, but for those of compiled programs
void notify_after(size_t nodes);  // call_recorded once a graph has that many nodes; 0: never

// Time spent in the bridge, recording, replaying or copying, while that is measured: what is not the user's own code.
struct Inside {
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
};
void measure_inside(bool on);
double inside_seconds();

struct Gil {
  Gil();
  ~Gil();
  Gil(const Gil&) = delete;
  int state;
};

}  // namespace hpu
