#include "tests/fake_gpu/nccl/shared_group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace fake_gpu {

bool SharedGroup::open(const std::string& name, int size) {
  static_assert(sizeof(Header) <= kHeaderBytes, "the header fits its page");
  name_ = name;
  size_ = size;
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t bytes = kHeaderBytes + ranks * kSlotBytes + ranks * ranks * sizeof(Box);
  const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0) return false;
  void* base = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(bytes)) == 0) {
    base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  ::close(file);
  if (base == MAP_FAILED) return false;
  base_ = static_cast<char*>(base);
  return true;
}

void SharedGroup::remove_name() { ::shm_unlink(name_.c_str()); }

Box& SharedGroup::box(int from, int to) {
  char* const boxes = slot(size_);
  return reinterpret_cast<Box*>(boxes)[from * size_ + to];
}

}  // namespace fake_gpu
