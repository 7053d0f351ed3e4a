#include "lockstep/checkpoint/joined_weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/checkpoint/agreement.h"
#include "lockstep/comm/gather_texts.h"
#include "lockstep/safetensors/safetensors_layout.h"
#include "lockstep/safetensors/weight_plan.h"

namespace lockstep {
namespace {

using PlaceJson = nlohmann::json;

constexpr std::int64_t kSentPieceBytes = std::int64_t{4} << 20;

struct SharedTensor {
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> sizes;
  std::vector<TensorPiece> pieces;
};

[[noreturn]] void refuse_shares(const std::string& path, const std::string& what) {
  throw Error(what, path, "let every rank save the same model, each its own part");
}

std::string places_of(const TensorParts& parts) {
  PlaceJson json = PlaceJson::array();
  for (const TensorPart& part : parts) {
    if (part.tensor.numel() != part.end - part.begin) {
      throw Error(fmt::format("there are {} values for elements [{}, {}) of {}", part.tensor.numel(), part.begin,
                              part.end, part.name),
                  "weights in parts", "give each part with its own elements");
    }
    json.push_back({part.name, static_cast<int>(part.tensor.scalar_type()), part.sizes, part.begin, part.end});
  }
  return json.dump();
}

// What the ranks have together. Equal on all of them.
std::map<std::string, SharedTensor> shared_tensors(const std::vector<std::string>& places, const std::string& path) {
  std::map<std::string, SharedTensor> tensors;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    for (const PlaceJson& place : PlaceJson::parse(places[rank])) {
      const auto dtype = static_cast<at::ScalarType>(place.at(1).get<int>());
      const auto sizes = place.at(2).get<std::vector<std::int64_t>>();
      const auto [found, is_new] = tensors.try_emplace(place.at(0).get<std::string>(), SharedTensor{dtype, sizes, {}});
      if (!is_new && (found->second.sizes != sizes || found->second.dtype != dtype)) {
        refuse_shares(
            path, fmt::format("\"{}\" has another shape or dtype on rank {} than on a lower rank", found->first, rank));
      }
      found->second.pieces.push_back({place.at(3), place.at(4), rank});
    }
  }
  for (auto& [name, tensor] : tensors) {
    const std::string fault = sort_pieces(name, tensor.pieces, elements_in(tensor.sizes));
    if (!fault.empty()) refuse_shares(path, fault);
  }
  return tensors;
}

}  // namespace

JoinedWeights::JoinedWeights(Communicator& group, const TensorParts& parts, const std::string& path)
    : group_(group), parts_(parts) {
  const auto shared = shared_tensors(gather_texts(group_, places_of(parts_)), path);
  NamedTensors outlines;  // names, sizes and dtypes alone
  for (const auto& [name, tensor] : shared) {
    outlines.emplace_back(name, at::empty(tensor.sizes, at::TensorOptions(tensor.dtype).device(at::kMeta)));
  }
  SafetensorsLayout layout = lay_out_safetensors(path, outlines);
  prefix_ = std::move(layout.prefix);
  data_bytes_ = layout.data_bytes;
  for (const auto& [name, outline] : layout.tensors) {
    tensors_.push_back({name, static_cast<std::size_t>(outline.element_size()), shared.at(name).pieces});
  }
}

at::Tensor JoinedWeights::own_bytes(const Tensor& tensor, const TensorPiece& piece) const {
  const auto is_it = [&](const TensorPart& part) {
    return part.name == tensor.name && part.begin == piece.begin && part.end == piece.end;
  };
  const auto found = std::find_if(parts_.begin(), parts_.end(), is_it);
  const at::Tensor plain = found->tensor.detach().cpu().contiguous();
  return at::from_blob(
      plain.data_ptr(), {static_cast<std::int64_t>(plain.nbytes())}, [plain](void*) {}, at::kByte);
}

void JoinedWeights::receive(const Tensor& tensor, const TensorPiece& piece,
                            const std::function<void(std::string_view)>& sink) const {
  const std::int64_t bytes = (piece.end - piece.begin) * static_cast<std::int64_t>(tensor.element_size);
  const at::Tensor memory = at::empty({std::min(bytes, kSentPieceBytes)}, at::kByte);
  for (std::int64_t at = 0; at < bytes; at += kSentPieceBytes) {
    const at::Tensor part = memory.narrow(0, 0, std::min(bytes - at, kSentPieceBytes));
    group_.recv(part, static_cast<int>(piece.owner));
    sink({static_cast<const char*>(part.data_ptr()), part.nbytes()});
  }
}

void JoinedWeights::write(const std::function<void(std::string_view)>& sink) const {
  sink(prefix_);
  for (const Tensor& tensor : tensors_) {
    for (const TensorPiece& piece : tensor.pieces) {
      if (piece.begin == piece.end) continue;
      if (piece.owner != 0) {
        receive(tensor, piece, sink);
        continue;
      }
      const at::Tensor own = own_bytes(tensor, piece);
      sink({static_cast<const char*>(own.data_ptr()), own.nbytes()});
    }
  }
}

void JoinedWeights::send() const {
  for (const Tensor& tensor : tensors_) {
    for (const TensorPiece& piece : tensor.pieces) {
      if (piece.owner != static_cast<std::size_t>(group_.rank()) || piece.begin == piece.end) continue;
      const at::Tensor own = own_bytes(tensor, piece);
      for (std::int64_t at = 0; at < own.numel(); at += kSentPieceBytes) {
        group_.send(own.narrow(0, at, std::min(own.numel() - at, kSentPieceBytes)), 0);
      }
    }
  }
}

void write_joined_weights(Communicator& group, const std::string& path, const TensorParts& parts,
                          const std::function<void()>& finish) {
  const std::unique_ptr<Communicator> own = group.split(0, group.rank());
  std::exception_ptr unsent;
  run_together(group, "writing " + path, [&] {
    try {
      const JoinedWeights joined(*own, parts, path);
      if (group.rank() != 0) return joined.send();
      AtomicFile file(path);
      file.reserve(joined.size_bytes());
      joined.write([&](std::string_view bytes) { file.write(bytes); });
      file.commit();
      finish();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      own->abort(text.substr(0, text.find('\n')));  // the others wait for this rank
      if (group.rank() == 0) throw;
      unsent = std::current_exception();  // rank 0 knows more
    }
  });
  if (unsent) std::rethrow_exception(unsent);
}

void write_joined_weight_files(Communicator& group, const std::string& folder, const NamedTensors& outlines,
                               const TensorParts& parts, std::uint64_t max_shard_bytes) {
  run_together(group, "making " + folder, [&] {
    if (group.rank() == 0) create_folders(folder);
  });
  const std::vector<WeightFile> files = plan_weight_files(outlines, max_shard_bytes);
  for (const WeightFile& file : files) {
    std::set<std::string> names;
    for (const auto& item : file.tensors) names.insert(item.first);
    TensorParts of_file;
    std::copy_if(parts.begin(), parts.end(), std::back_inserter(of_file),
                 [&](const TensorPart& part) { return names.count(part.name) != 0; });
    write_joined_weights(group, folder + "/" + file.name, of_file, [] {});
  }
  run_together(group, "completing " + folder, [&] {
    if (group.rank() == 0) finish_weight_files(folder, files);
  });
}

}  // namespace lockstep
