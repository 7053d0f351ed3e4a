// `lockstep sampler`: shows the samples that one rank takes in one epoch.
#include "lockstep/data/sampler.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "tools/frame/subcommand.h"

namespace lockstep {
namespace {

class ShowSampler : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--dataset-size", dataset_size_, "samples in the dataset")->required();
    app.add_option("--num-replicas", num_replicas_, "number of replicas that share it, usually the world size")
        ->capture_default_str();
    app.add_option("--rank", rank_, "rank whose samples are printed")->capture_default_str();
    app.add_option("--seed", seed_, "seed of the shuffle")->capture_default_str();
    app.add_option("--epoch", epoch_, "epoch, as given to set_epoch")->capture_default_str();
    app.add_flag("--no-shuffle", no_shuffle_, "keep the dataset's order");
    auto* drop_last = app.add_flag("--drop-last", drop_last_, "leave out the tail that does not divide evenly");
    app.add_flag("--exact", exact_, "repeat no sample, as for evaluation; some shares may be smaller")
        ->excludes(drop_last);
    show_examples(app, {"lockstep sampler --dataset-size 10 --num-replicas 4 --rank 0",
                        "lockstep sampler --dataset-size 10 --num-replicas 4 --rank 3 --epoch 1 --drop-last",
                        "lockstep sampler --dataset-size 10 --num-replicas 4 --rank 3 --no-shuffle --exact"});
  }

  int run(const CommandStreams& streams) override {
    const std::unique_ptr<Sampler> sampler = make_sampler();
    sampler->set_epoch(epoch_);
    fmt::print(streams.out, "[{}]\n", fmt::join(sampler->indices(), ", "));
    return 0;
  }

 private:
  std::unique_ptr<Sampler> make_sampler() const {
    if (exact_) {
      return std::make_unique<ExactDistributedSampler>(
          dataset_size_, ExactDistributedSamplerOptions{num_replicas_, rank_, !no_shuffle_, seed_});
    }
    return std::make_unique<DistributedSampler>(
        dataset_size_, DistributedSamplerOptions{num_replicas_, rank_, !no_shuffle_, seed_, drop_last_});
  }

  std::int64_t dataset_size_ = 0;
  std::int64_t num_replicas_ = 1;
  std::int64_t rank_ = 0;
  std::uint64_t seed_ = 0;
  std::int64_t epoch_ = 0;
  bool no_shuffle_ = false;
  bool drop_last_ = false;
  bool exact_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_sampler() { return std::make_unique<ShowSampler>(); }

}  // namespace lockstep
