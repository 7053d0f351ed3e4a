#include "lockstep/parallel/module_sync.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string describe(const NamedTensor& entry) {
  std::string shape;
  for (const std::int64_t size : entry.tensor.sizes()) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  return fmt::format("{}: {} [{}]", entry.name, c10::toString(entry.tensor.scalar_type()), shape);
}

at::Tensor byte_tensor(std::int64_t bytes) { return at::empty({bytes}, at::TensorOptions().dtype(at::kByte)); }
at::Tensor long_tensor(std::int64_t count) { return at::empty({count}, at::TensorOptions().dtype(at::kLong)); }

// The root's text on every rank.
std::string broadcast_text(Communicator& communicator, const std::string& mine, int root) {
  at::Tensor length = long_tensor(1);
  length.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(mine.size());
  communicator.broadcast(length, root);
  if (length.data_ptr<std::int64_t>()[0] == 0) return "";
  at::Tensor bytes = byte_tensor(length.data_ptr<std::int64_t>()[0]);
  if (communicator.rank() == root) std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  communicator.broadcast(bytes, root);
  return std::string(static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(bytes.numel()));
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string line_or_nothing(const std::vector<std::string>& lines, std::size_t index) {
  return index < lines.size() ? lines[index] : std::string("nothing");
}

constexpr std::int64_t kEqual = -1;

at::TensorOptions bytes_on(c10::Device device) { return at::TensorOptions().dtype(at::kByte).device(device); }

// Between contiguous memory of one device.
void copy_bytes(void* to, void* from, std::size_t bytes, c10::Device device) {
  if (bytes == 0) return;
  if (device.is_cpu()) {
    std::memcpy(to, from, bytes);
    return;
  }
  const auto size = static_cast<std::int64_t>(bytes);
  at::from_blob(to, {size}, bytes_on(device)).copy_(at::from_blob(from, {size}, bytes_on(device)));
}

}  // namespace

void check_equal_across_ranks(Communicator& communicator, const std::vector<NamedTensor>& tensors, const char* what) {
  std::string text;
  for (const auto& entry : tensors) text += describe(entry) + "\n";
  const std::vector<std::string> mine = split_lines(text);
  const std::vector<std::string> theirs = split_lines(broadcast_text(communicator, text, 0));

  std::int64_t difference = kEqual;
  for (std::size_t i = 0; i < std::max(mine.size(), theirs.size()) && difference == kEqual; ++i) {
    if (line_or_nothing(mine, i) != line_or_nothing(theirs, i)) difference = static_cast<std::int64_t>(i);
  }
  at::Tensor own = long_tensor(1);
  own.data_ptr<std::int64_t>()[0] = difference;
  at::Tensor all = long_tensor(communicator.world_size());
  communicator.all_gather(all, own);
  const std::int64_t* differences = all.data_ptr<std::int64_t>();
  const std::int64_t* end = differences + communicator.world_size();
  const std::int64_t* found = std::find_if(differences, end, [](std::int64_t d) { return d != kEqual; });
  if (found == end) return;

  const int other = static_cast<int>(found - differences);
  const std::size_t index = static_cast<std::size_t>(*found);
  const std::string there = broadcast_text(communicator, line_or_nothing(mine, index), other);
  throw Error(fmt::format("the models of the ranks differ at {} {}: rank 0 has {}, rank {} has {}", what, index,
                          line_or_nothing(theirs, index), other, there),
              communicator.membership().where(), "build the same model on every rank, in the same order");
}

void broadcast_coalesced(Communicator& communicator, const std::vector<at::Tensor>& tensors, int root,
                         std::int64_t chunk_bytes) {
  const at::NoGradGuard no_grad;
  for (std::size_t begin = 0; begin < tensors.size();) {
    const c10::Device device = tensors[begin].device();
    std::int64_t bytes = 0;
    std::size_t end = begin;
    do {
      bytes += static_cast<std::int64_t>(tensors[end].nbytes());
      ++end;
    } while (end < tensors.size() && tensors[end].device() == device &&
             bytes + static_cast<std::int64_t>(tensors[end].nbytes()) <= chunk_bytes);

    at::Tensor chunk = at::empty({bytes}, bytes_on(device));
    char* position = static_cast<char*>(chunk.data_ptr());
    if (communicator.rank() == root) {
      for (std::size_t i = begin; i < end; ++i) {
        const at::Tensor flat = tensors[i].contiguous();
        copy_bytes(position, flat.data_ptr(), flat.nbytes(), device);
        position += flat.nbytes();
      }
    }
    communicator.broadcast(chunk, root);
    if (communicator.rank() != root) {
      for (std::size_t i = begin; i < end; ++i) {
        at::Tensor target = tensors[i].detach();
        at::Tensor flat = target.contiguous();
        copy_bytes(flat.data_ptr(), position, flat.nbytes(), device);
        position += flat.nbytes();
        if (!flat.is_same(target)) target.copy_(flat);
      }
    }
    begin = end;
  }
}

}  // namespace lockstep
