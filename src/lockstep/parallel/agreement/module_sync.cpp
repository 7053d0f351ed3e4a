#include "lockstep/parallel/agreement/module_sync.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/parallel/agreement/rank_difference.h"
#include "lockstep/parallel/deferred/deferred_parameters.h"

namespace lockstep {
namespace {

// Describes strides if they matter: gradients lie in buckets as their parameters do.
std::string describe_layout(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || tensor.is_contiguous()) return "";
  return fmt::format(", strides [{}]", fmt::join(tensor.strides(), ", "));
}

std::string describe_entry(const NamedTensor& entry) {
  return fmt::format("{}: {} [{}]", entry.name, c10::toString(entry.tensor.scalar_type()),
                     fmt::join(entry.tensor.sizes(), ", "));
}

void check_equal(Communicator& communicator, const std::vector<std::string>& lines, const char* what) {
  const auto difference = first_difference(communicator, lines);
  if (!difference) return;
  throw Error(fmt::format("the models of the ranks differ at {} {}: {}", what, difference->index, difference->text()),
              communicator.membership().where(),
              "build the same model on every rank, in the same order, with the same layers frozen");
}

at::TensorOptions bytes_on(c10::Device device) { return at::TensorOptions().dtype(at::kByte).device(device); }

// Copies between contiguous memory on one device.
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

void check_equal_across_ranks(Communicator& communicator, const std::vector<NamedTensor>& parameters, const char* what,
                              bool compares_deferred) {
  std::vector<std::string> lines;
  for (const auto& entry : parameters) {
    lines.push_back(describe_entry(entry) + describe_layout(entry.tensor) +
                    (compares_deferred ? deferred_text(entry.tensor) : "") +
                    (entry.tensor.requires_grad() ? "" : ", which requires no gradient"));
  }
  check_equal(communicator, lines, what);
}

void check_equal_buffers_across_ranks(Communicator& communicator, const std::vector<NamedTensor>& buffers) {
  std::vector<std::string> lines;
  for (const auto& entry : buffers) lines.push_back(describe_entry(entry));
  check_equal(communicator, lines, "buffer");
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
