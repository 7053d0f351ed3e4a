// Compares an Accelerator on two ranks with Hugging Face's: see huggingface/accelerate_facts.py.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/optim/adam.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/huggingface/huggingface_facts.h"

namespace lockstep {
namespace {

using AccelerateJson = nlohmann::json;

AccelerateJson listed_tensor(const at::Tensor& tensor) {
  if (tensor.dim() > 0) {
    AccelerateJson list = AccelerateJson::array();
    for (std::int64_t i = 0; i < tensor.size(0); ++i) list.push_back(listed_tensor(tensor[i]));
    return list;
  }
  if (tensor.is_floating_point()) return tensor.item<double>();
  return tensor.item<std::int64_t>();
}

struct Listing {
  static AccelerateJson of(const at::Tensor& tensor) { return listed_tensor(tensor); }
  static AccelerateJson of(const std::vector<std::string>& words) { return words; }
  static AccelerateJson of(const std::vector<at::Tensor>& parts) {
    AccelerateJson list = AccelerateJson::array();
    for (const at::Tensor& part : parts) list.push_back(of(part));
    return list;
  }
};

using OnTwoRanks = std::function<AccelerateJson(Accelerator&)>;

// Runs `body` on both ranks and compares its results with the recorded list under `name`.
void expect_on_two_ranks(const std::string& name, const OnTwoRanks& body, const AcceleratorOptions& options = {}) {
  static const AccelerateJson facts = huggingface_facts("accelerate_facts");
  AccelerateJson got{nullptr, nullptr};
  std::mutex mutex;
  run_ranks_as_threads(2, [&](const Membership& membership) {
    AcceleratorOptions mine = options;
    mine.ddp.process_group = make_communicator("thread", membership);
    Accelerator accelerator(mine);
    const AccelerateJson result = body(accelerator);
    const std::lock_guard<std::mutex> lock(mutex);
    got[static_cast<std::size_t>(accelerator.process_index())] = result;
  });
  expect_same_facts(got, facts.at(name), name);
}

DataLoader loader_of_numbers(std::int64_t samples, std::int64_t batch_size, bool drop_last = false) {
  DataLoaderOptions options;
  options.batch_size = batch_size;
  options.drop_last = drop_last;
  return DataLoader(std::make_shared<TensorDataset>(Batch{{"x", torch::arange(samples, torch::kFloat)}}), options);
}

TEST(HuggingFaceAccelerate, CollectivesOfNestedTensors) {
  using Inner = std::vector<at::Tensor>;
  expect_on_two_ranks("gather", [](Accelerator& accelerator) -> AccelerateJson {
    const int rank = accelerator.process_index();
    const std::map<std::string, Inner> nested{
        {"a", {torch::tensor({rank, rank + 5})}},
        {"b", {torch::tensor({1.0 + rank}).view({1, 1}), torch::tensor(rank * 1.5)}}};
    const auto all = accelerator.gather(nested);
    return {{"a", Listing::of(all.at("a").at(0))}, {"b", Listing::of(all.at("b"))}};
  });
  expect_on_two_ranks("reduce_sum", [](Accelerator& accelerator) -> AccelerateJson {
    const int rank = accelerator.process_index();
    const std::map<std::string, Inner> nested{{"a", {torch::tensor({rank + 1.0})}},
                                              {"b", {torch::tensor({rank + 2.0})}}};
    const auto sums = accelerator.reduce(nested);
    return {{"a", Listing::of(sums.at("a").at(0))}, {"b", Listing::of(sums.at("b"))}};
  });
  expect_on_two_ranks("reduce_mean", [](Accelerator& accelerator) {
    return Listing::of(accelerator.reduce(Inner{torch::tensor({accelerator.process_index() + 1.0})}, "mean"));
  });
  expect_on_two_ranks("pad_nested", [](Accelerator& accelerator) -> AccelerateJson {
    const int rank = accelerator.process_index();
    const at::Tensor ragged = torch::arange(2.0 + 2 * rank).reshape({1 + rank, 2}) + 10 * rank;
    const std::map<std::string, Inner> nested{{"a", {ragged}}, {"b", {ragged, torch::tensor(3.0)}}};
    const auto padded = accelerator.pad_across_processes(nested);
    return {{"a", Listing::of(padded.at("a").at(0))}, {"b", Listing::of(padded.at("b"))}};
  });
}

TEST(HuggingFaceAccelerate, PadsAnyDimensionAtEitherEnd) {
  for (const std::int64_t dim : {0, 1, -1, 2}) {
    for (const bool first : {false, true}) {
      const std::string name = "pad_" + std::to_string(dim) + (first ? "_True" : "_False");
      expect_on_two_ranks(name, [&](Accelerator& accelerator) {
        const int rank = accelerator.process_index();
        const at::Tensor ragged = torch::arange(2.0 + 2 * rank).reshape({1 + rank, 2}) + 10 * rank;
        return Listing::of(accelerator.pad_across_processes(dim == 0 ? ragged : ragged.t(), dim, 7, first));
      });
    }
  }
}

TEST(HuggingFaceAccelerate, SplitsListsTensorsAndMaps) {
  for (const std::size_t count : {0, 1, 2, 5}) {
    for (const bool padding : {false, true}) {
      if (count == 0 && padding) continue;
      const std::vector<std::string> letters{"a", "b", "c", "d", "e"};
      const std::vector<std::string> words(letters.begin(), letters.begin() + static_cast<std::ptrdiff_t>(count));
      const std::string name = "_" + std::to_string(count) + (padding ? "_True" : "_False");
      const auto rows = static_cast<std::int64_t>(count);
      expect_on_two_ranks("list" + name, [&](Accelerator& accelerator) {
        return Listing::of(accelerator.split_between_processes(words, padding));
      });
      if (count < 2) continue;
      expect_on_two_ranks("tensor" + name, [&](Accelerator& accelerator) {
        return Listing::of(accelerator.split_between_processes(torch::arange(2.0 * rows).reshape({rows, 2}), padding));
      });
      expect_on_two_ranks("dict" + name, [&](Accelerator& accelerator) -> AccelerateJson {
        const std::map<std::string, at::Tensor> tensors{{"t", torch::arange(rows)}};
        const std::map<std::string, std::vector<std::string>> lists{{"w", words}};
        return {{"w", Listing::of(accelerator.split_between_processes(lists, padding).at("w"))},
                {"t", Listing::of(accelerator.split_between_processes(tensors, padding).at("t"))}};
      });
    }
  }
  const Accelerator accelerator;
  const std::map<std::string, std::vector<std::string>> uneven{{"a", {"1"}}, {"b", {"1", "2"}}};
  EXPECT_THROW(accelerator.split_between_processes(uneven), Error);
}

TEST(HuggingFaceAccelerate, LoadersGiveEachSampleOnce) {
  for (const std::int64_t samples : {1, 4, 7, 8, 10}) {
    expect_on_two_ranks("metrics_" + std::to_string(samples), [&](Accelerator& accelerator) -> AccelerateJson {
      auto [loader] = accelerator.prepare(loader_of_numbers(samples, 2));
      std::vector<std::int64_t> sizes;
      std::vector<double> seen, second;
      for (Batch& batch : loader) {
        const at::Tensor x = batch.at("x");
        const std::map<std::string, std::vector<at::Tensor>> nested{{"x", {x}}, {"pair", {x, x + 100}}};
        const auto all = accelerator.gather_for_metrics(nested);
        sizes.push_back(all.at("x").at(0).size(0));
        for (const double value : Listing::of(all.at("x").at(0))) seen.push_back(value);
        for (const double value : Listing::of(all.at("pair").at(1))) second.push_back(value);
      }
      std::sort(seen.begin(), seen.end());
      std::sort(second.begin(), second.end());
      return {{"batches", loader.size()},
              {"total_batch_size", loader.total_batch_size()},
              {"sizes", sizes},
              {"samples", seen},
              {"second", second}};
    });
  }
  expect_on_two_ranks("drop_last", [](Accelerator& accelerator) -> AccelerateJson {
    auto [loader] = accelerator.prepare(loader_of_numbers(10, 2, true));
    std::int64_t samples = 0;
    for (Batch& batch : loader) samples += batch.at("x").size(0);
    return {{"batches", loader.size()}, {"samples", samples}};
  });
  expect_on_two_ranks("skip_first_batches", [](Accelerator& accelerator) -> AccelerateJson {
    auto [loader] = accelerator.prepare(loader_of_numbers(16, 2));
    std::int64_t batches = 0;
    for ([[maybe_unused]] Batch& batch : Accelerator::skip_first_batches(loader, 3)) ++batches;
    return {{"batches", batches}};
  });
}

TEST(HuggingFaceAccelerate, WindowsOfSeveralModels) {
  for (const std::int64_t steps : {2, 3}) {
    for (const bool with_loader : {true, false}) {
      AcceleratorOptions options;
      options.gradient_accumulation_steps = steps;
      options.sync_with_dataloader = with_loader;
      const std::string name = "accumulate_" + std::to_string(steps) + (with_loader ? "_True" : "_False");
      expect_on_two_ranks(
          name,
          [](Accelerator& accelerator) {
            auto [first, second, loader] =
                accelerator.prepare(torch::nn::Linear(1, 1), torch::nn::Linear(1, 1), loader_of_numbers(10, 1));
            AccelerateJson synchronised = AccelerateJson::array();
            for (int epoch = 0; epoch < 2; ++epoch) {
              for (Batch& batch : loader) {
                const auto scope = accelerator.accumulate(first, second);
                // Equal gradients on both ranks show that gradients were averaged.
                std::vector<bool> row{accelerator.sync_gradients()};
                const at::Tensor own = batch.at("x").view({1, 1}) + 1.0 + accelerator.process_index();
                for (auto* model : {&first, &second}) {
                  auto net = Accelerator::unwrap_model(*model);
                  net->zero_grad();
                  accelerator.backward((*model)(own).sum());
                  const at::Tensor both = accelerator.gather(net->weight.grad().flatten());
                  row.push_back(both[0].equal(both[1]));
                }
                synchronised.push_back(row);
              }
            }
            return synchronised;
          },
          options);
    }
  }
}

TEST(HuggingFaceAccelerate, ATriggerOfOneRankIsSeenOnceByAll) {
  expect_on_two_ranks("triggers", [](Accelerator& accelerator) {
    std::vector<bool> seen{accelerator.check_trigger()};
    if (accelerator.process_index() == 1) accelerator.set_trigger();
    seen.push_back(accelerator.check_trigger());
    seen.push_back(accelerator.check_trigger());
    return AccelerateJson(seen);
  });
}

TEST(HuggingFaceAccelerate, UnevenInputsTrainTheSameWeights) {
  expect_on_two_ranks("join", [](Accelerator& accelerator) -> AccelerateJson {
    torch::nn::Linear net(1, 1);
    {
      const torch::NoGradGuard no_grad;
      net->weight.fill_(0.5);
      net->bias.fill_(0.1);
    }
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    accelerator.join_uneven_inputs(model, [&, &model = model, &optimizer = optimizer] {
      const int rank = accelerator.process_index();
      for (int i = 0; i < 3 - rank; ++i) {
        const at::Tensor batch = torch::full({1, 1}, 0.5 * i + 0.1 * rank);
        optimizer.zero_grad();
        accelerator.backward((model(batch) - batch * 0.3 + 1).square().mean());
        optimizer.step();
      }
    });
    return Listing::of(std::vector<at::Tensor>{net->weight.detach(), net->bias.detach()});
  });
}

struct KeptNumber {
  int value;
  std::string state_dict() const { return std::to_string(value); }
  void load_state_dict(const std::string& text) { value = std::stoi(text); }
};

TEST(HuggingFaceAccelerate, CheckpointsAreNamedKeptAndTakenUp) {
  const TemporaryFolder folder;
  AcceleratorOptions options;
  options.project_config.project_dir = folder.path();
  options.project_config.automatic_checkpoint_naming = true;
  options.project_config.total_limit = 2;
  std::vector<AccelerateJson> taken_up(2);
  expect_on_two_ranks(
      "checkpoints",
      [&](Accelerator& accelerator) -> AccelerateJson {
        torch::nn::Linear net(1, 1);
        Adam adam(net->parameters(), torch::optim::AdamOptions());
        auto [model, optimizer] = accelerator.prepare(net, adam);
        KeptNumber first{1}, second{2};
        accelerator.register_for_checkpointing(first);
        accelerator.register_for_checkpointing(second);
        AccelerateJson left = AccelerateJson::array();
        std::string last;
        for (int save = 0; save < 4; ++save) {
          first.value += 10;
          second.value += 10;
          last = accelerator.save_state();
          accelerator.wait_for_everyone();  // the main process has removed checkpoints beyond the limit
          std::vector<std::string> names;
          for (const auto& entry : std::filesystem::directory_iterator(folder / "checkpoints")) {
            const std::string name = entry.path().filename();
            if (name.front() != '.') names.push_back(name);
          }
          std::sort(names.begin(), names.end());
          left.push_back(names);
          accelerator.wait_for_everyone();
        }
        first.value = second.value = 0;
        accelerator.load_state();
        taken_up[static_cast<std::size_t>(accelerator.process_index())] = {first.value, second.value};
        // A checkpoint contains only objects that are prepared from now on.
        accelerator.free_memory();
        const std::string bare = accelerator.save_state(folder / "bare");
        EXPECT_FALSE(std::filesystem::exists(bare + "/model.safetensors"));
        EXPECT_TRUE(std::filesystem::exists(last + "/model.safetensors"));
        const std::string number = last.substr(last.rfind('_') + 1);
        return {{"left", left}, {"next", std::stoi(number) + 1}};
      },
      options);
  const auto facts = huggingface_facts("accelerate_facts");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(taken_up[rank], facts.at("load_state").at(rank).at("values"));
  }
}

TEST(HuggingFaceAccelerate, RecordedFactsAreThoseOfToday) { expect_facts_of_today("accelerate_facts"); }

}  // namespace
}  // namespace lockstep
