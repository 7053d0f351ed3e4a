#include "lockstep/train/accelerator/same_loader.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "lockstep/data/random_sampler.h"
#include "lockstep/detail/train/torch_loader_data.h"
#include "lockstep/parallel/agreement/data_agreement.h"

namespace lockstep {

nlohmann::json loader_settings(const DataLoader& loader) {
  const Sampler* const sampler = loader.sampler().get();
  const bool shuffles = dynamic_cast<const RandomSampler*>(sampler) != nullptr;
  return {{"batch_size", loader.options().batch_size},
          {"drop_last", loader.options().drop_last},
          {"order", shuffles ? fmt::format("shuffled by seed {}", sampler->seed()) : std::string("as it is")}};
}

void require_same_loader(Communicator& group, const std::string& name, const std::shared_ptr<const Dataset>& data,
                         const LoaderShare& share, nlohmann::json settings) {
  if (group.world_size() == 1) return;
  settings["even_batches"] = share.even_batches;
  settings["split_batches"] = share.split_batches;
  ComparedData compared{name, data};
  compared.settings = std::move(settings);
  DataAgreement({std::move(compared)}).require_on_all(group);
}

void detail::compare_torch_loader(Communicator& group, const std::shared_ptr<const Dataset>& data,
                                  const LoaderShare& share, const LoaderBatches& batches) {
  require_same_loader(group, "the prepared loader of torch::data", data, share,
                      {{"batch_size", batches.size}, {"drop_last", batches.drops_last}});
}

}  // namespace lockstep
