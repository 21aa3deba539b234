// The memory of one hpu storage: an address on the card, and host memory only once something was written.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hpu {

constexpr auto kHpu = c10::DeviceType::PrivateUse1;

struct Block {
  uint64_t address = 0;   // device address: unique, never dereferenced on the host
  size_t nbytes = 0;
  void* host = nullptr;   // the bytes that stand for the card's memory; null until first written
  size_t host_size = 0;   // size class in the pool; 0 when `adopted` owns the bytes
  c10::DataPtr adopted;   // memory taken over from a CPU tensor
  std::shared_ptr<const std::string> lost;  // why it has no value: the graph that should have computed it failed
  bool resident = false;  // holds a value on the card (counted as HBM in use)
  uint64_t epoch = 0;     // recording that last touched it ...
  uint32_t slot = 0;      // ... and its buffer number there
};

// One change of the card's memory: nbytes > 0 became resident, < 0 was freed. `slot` is the buffer number in the graph
// whose end made it resident, -1 otherwise.
struct MemoryEvent {
  uint64_t address;
  int64_t nbytes;
  int64_t slot;
};

c10::Allocator* allocator();
Block* block_of(const c10::StorageImpl& storage);
bool owns_block(const c10::StorageImpl& storage);  // false: a bare device pointer wrapped into a storage

void ensure_host(Block& block);                        // gives it host memory (zeroed when numerics are off)
void require_value(const Block& block);                // raises where the value was lost
void release_host(Block& block);                       // returns host memory to the pool
void adopt_host(Block& block, c10::DataPtr&& memory);  // takes over a CPU tensor's memory
void make_resident(Block& block, int64_t slot = -1);
Block* block_at(uint64_t address);                     // null where no storage has it
void resize_block(c10::StorageImpl& storage, size_t nbytes);

std::vector<MemoryEvent> drain_memory_events();
void set_numerics(bool on);
bool numerics();

}  // namespace hpu
