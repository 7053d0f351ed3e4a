#include "lockstep/train/checks/same_weights.h"

#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/comm/gather_texts.h"
#include "lockstep/parallel/agreement/data_agreement.h"

namespace lockstep {
namespace {

// A row for each parameter: its name and a digest of its bytes.
nlohmann::json digests_of_parameters(TrainableModel& model) {
  nlohmann::json digests = nlohmann::json::array();
  for (const auto& [name, parameter] : model.tensors().parameters) {
    const at::Tensor bytes = parameter.detach().cpu().contiguous();
    digests.push_back({name, hash_text(bytes.data_ptr(), bytes.nbytes())});
  }
  return digests;
}

std::string first_other_parameter(const nlohmann::json& a, const nlohmann::json& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] != b[i]) return a[i][0];
  }
  return fmt::format("the number of parameters, {} and {},", a.size(), b.size());
}

}  // namespace

void require_same_weights(const TrainerContext& context) {
  const auto& fsdp = context.args().fsdp;
  if (context.world_size() == 1 || context.shards || (fsdp && !fsdp->empty())) return;
  const std::string own = digests_of_parameters(*context.options.model).dump();
  const std::vector<std::string> texts = gather_texts(*context.group, own);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::string name = first_other_parameter(nlohmann::json::parse(texts[rank]), nlohmann::json::parse(texts[0]));
    refuse_data(fmt::format("the ranks do not have the same weights; {} of rank {} is not that of rank 0", name, rank),
                context.where(),
                "give all ranks the same model folder; if each host has a copy, copy one to all hosts");
  }
}

}  // namespace lockstep
