// A card has more memory than many a machine that emulates it, and what is allocated in bulk is mostly filled with zeros
// or ones at first. Such a block maps the same pages again and again; what is written later gets pages of its own.
#include "constant.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace hpu {
namespace {

constexpr size_t kChunk = size_t{64} << 20;  // 96 GB are 1,536 mappings, of the 65,530 that a process may have

struct Mapping {
  void* memory;
  size_t size;
};

void unmap(void* context) {
  auto* mapping = static_cast<Mapping*>(context);
  munmap(mapping->memory, mapping->size);
  delete mapping;
}

bool is_constant(const Block& block) { return block.adopted.get_deleter() == &unmap; }

size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  size_t kilobytes = 0;
  for (std::string line; std::getline(file, line);)
    if (std::istringstream(line) >> name >> kilobytes && name == "MemAvailable:") return kilobytes << 10;
  return SIZE_MAX;
}

// One chunk of the pattern, in memory that can be mapped; -1 where there is none.
int chunk_of(const at::Tensor& number) {
  const int file = memfd_create("hpucluster-constant", MFD_CLOEXEC);
  if (file < 0) return -1;
  if (ftruncate(file, kChunk) == 0) {
    void* chunk = mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (chunk != MAP_FAILED) {
      const size_t element = number.element_size();
      for (size_t at = 0; at < kChunk; at += element) {
        std::memcpy(static_cast<char*>(chunk) + at, number.const_data_ptr(), element);
      }
      munmap(chunk, kChunk);
      return file;
    }
  }
  close(file);
  return -1;
}

}  // namespace

bool is_fill(const std::string& name) { return name == "aten::fill_.Scalar" || name == "aten::zero_"; }

bool hold_constant(Block& block, const torch::jit::Stack& arguments) {
  if ((block.host && !is_constant(block)) || !numerics()) return false;
  const size_t size = (block.nbytes + kChunk - 1) / kChunk * kChunk;
  const int flags = MAP_PRIVATE | MAP_NORESERVE;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* mapping = new Mapping{memory, size};
  c10::DataPtr data(memory, mapping, &unmap, c10::Device(c10::kCPU));
  const auto& target = arguments[0].toTensor();
  const c10::Scalar number = arguments.size() > 1 ? arguments[1].toScalar() : c10::Scalar(0);
  const at::Tensor pattern = at::scalar_tensor(number, target.options().device(c10::kCPU));
  if (number.toComplexDouble() != 0.0) {
    const int file = chunk_of(pattern);
    if (file < 0) return false;
    bool mapped = true;
    for (size_t at = 0; at < size && mapped; at += kChunk)
      mapped = mmap(static_cast<char*>(memory) + at, kChunk, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) != MAP_FAILED;
    close(file);
    if (!mapped) return false;
  }
  adopt_host(block, std::move(data));
  return true;
}

void require_pages(const Block& block) {
  TORCH_CHECK(!is_constant(block) || block.nbytes < available_memory(), "no host memory for ", block.nbytes,
              " bytes of an hpu tensor; use a smaller model or batch, or shapes only (HPUCLUSTER_NUMERICS=off)");
}

}  // namespace hpu
