#include "lockstep/checkpoint/replica_check.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/checkpoint/agreement.h"
#include "lockstep/checkpoint/files/saved_weights.h"
#include "lockstep/comm/gather_texts.h"

namespace lockstep {
namespace {

void update_with(Sha256& digest, const std::string& name, std::int64_t begin, const at::Tensor& elements) {
  const at::Tensor plain = elements.detach().cpu().contiguous();
  digest.update_sized(name);
  digest.update_number(begin);
  digest.update_number(plain.numel());
  digest.update({static_cast<const char*>(plain.data_ptr()), plain.nbytes()});
}

// What a rank has loaded: where each part begins and ends, and the digest of all elements.
std::string text_of_loaded(const TensorParts& parts) {
  nlohmann::json places = nlohmann::json::array();
  Sha256 digest;
  for (const TensorPart& part : parts) {
    if (part.begin == part.end) continue;
    places.push_back({part.name, part.begin, part.end});
    update_with(digest, part.name, part.begin, part.tensor);
  }
  return nlohmann::json{{"places", places}, {"digest", digest.hex()}}.dump();
}

bool is_as_saved(const SavedWeights& saved, const std::string& loaded) {
  const nlohmann::json json = nlohmann::json::parse(loaded);
  Sha256 digest;
  for (const nlohmann::json& place : json.at("places")) {
    const auto name = place.at(0).get<std::string>();
    const auto begin = place.at(1).get<std::int64_t>(), end = place.at(2).get<std::int64_t>();
    at::Tensor elements = at::empty({end - begin}, saved.tensor(name).type);
    saved.copy(name, begin, end, elements);
    update_with(digest, name, begin, elements);
  }
  return digest.hex() == json.at("digest").get<std::string>();
}

}  // namespace

std::string tensors_checksum(const NamedTensors& tensors) {
  Sha256 digest;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor plain = tensor.detach().cpu().contiguous();
    digest.update_sized(name);
    digest.update_sized(c10::toString(plain.scalar_type()));
    digest.update_number(plain.dim());
    for (const std::int64_t size : plain.sizes()) digest.update_number(size);
    digest.update({static_cast<const char*>(plain.data_ptr()), plain.nbytes()});
  }
  return digest.hex();
}

void check_replicas_equal(Communicator& communicator, const NamedTensors& tensors, const std::string& what) {
  const std::vector<std::string> sums = gather_texts(communicator, tensors_checksum(tensors));
  std::vector<std::size_t> others;
  for (std::size_t rank = 1; rank < sums.size(); ++rank) {
    if (sums[rank] != sums.front()) others.push_back(rank);
  }
  if (others.empty()) return;
  throw Error(fmt::format("{} differ from rank 0's (SHA-256 {}…) on rank {}", what, sums.front().substr(0, 12),
                          fmt::join(others, ", ")),
              communicator.membership().where(),
              "let every rank read the same files, and let no rank write to weights");
}

void check_parts_as_saved(Communicator& communicator, const Checkpoint& checkpoint, const TensorParts& parts,
                          const std::string& what, std::size_t index) {
  const std::vector<std::string> loaded = gather_texts(communicator, text_of_loaded(parts));
  run_together(communicator, "comparing " + what, [&] {
    if (communicator.rank() != 0) return;
    const SavedWeights saved(checkpoint.path(), checkpoint.manifest(), index);
    std::vector<std::size_t> others;
    for (std::size_t rank = 0; rank < loaded.size(); ++rank) {
      if (!is_as_saved(saved, loaded[rank])) others.push_back(rank);
    }
    saved.require_whole();
    if (others.empty()) return;
    throw Error(fmt::format("{}: rank {} has read something other than the files that rank 0 has verified", what,
                            fmt::join(others, ", ")),
                checkpoint.path(), "give a folder that all hosts share, and let nothing write to it");
  });
}

}  // namespace lockstep
