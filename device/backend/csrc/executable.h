// The numerics of a recipe: its operators over CPU tensors that were made once, and are pointed at the buffers' memory
// at each launch.
#pragma once

#include "recorder.h"

namespace hpu {

class Executable {
 public:
  explicit Executable(const Recording& recording);
  void run(Recording& recording);  // releases the GIL; waits for its turn
  // Lets the recordings behind it pass. `why` it failed: then what it should have made has no value.
  static void abandon(Recording& recording, const std::string& why);
  size_t size() const { return steps_.size(); }

 private:
  struct Patch {
    int argument;
    int param;
  };
  struct Result {
    int position;  // return number, -1 within a list
    int item;      // place in the list, or 0
    int buffer;
    at::Tensor window;
    bool whole;    // the window is the whole buffer: the result's memory can become the buffer's
  };
  struct Step {
    const OpInfo* op;
    torch::jit::Stack arguments;
    std::vector<Patch> patches;
    std::vector<Result> results;
    std::vector<int> acquire;  // buffers that get memory before this step
    std::vector<int> release;  // workspace buffers whose last use it is
    std::vector<at::Tensor> narrow;  // windows that it writes, of types that the card holds in 32 bits
    bool limits;                     // ... limiting values to the range, not wrapping around
    int seed;
    std::vector<int> large_writes;  // buffers of which it writes a large part
    int constant = -1;              // ... and fills with one number
  };

  void execute(Recording& recording);
  void run_step(Recording& recording, Step& step, torch::jit::Stack& stack);
  void bind(Recording& recording, int buffer);
  static void call(Recording& recording, const Step& step, torch::jit::Stack& stack);

  std::vector<c10::intrusive_ptr<c10::StorageImpl>> storages_;
  std::vector<Step> steps_;
};

}  // namespace hpu
