// Ranks that have read different data, and checkpoints that continue with other data.
#include "lockstep/train/checks/training_data.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/concat_dataset.h"
#include "lockstep/data/subset_dataset.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/data/transform_dataset.h"
#include "lockstep/train/arguments/training_argument_table.h"
#include "lockstep/train/checks/compared_arguments.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

constexpr std::int64_t kRows = 200;  // more than a digest has parts

// Rows of one token, whose label follows from the row's number.
Batch rows_of_tokens(std::int64_t rows = kRows) {
  const at::Tensor numbers = torch::arange(rows, torch::kLong);
  return {{"input_ids", (numbers * 7 % TokenTaskDataset::kTokens).unsqueeze(1)},
          {"labels", (numbers * 3 % TokenTaskDataset::kTokens).unsqueeze(1)}};
}

Batch in_order(Batch rows, const at::Tensor& order) {
  for (auto& [name, tensor] : rows) tensor = tensor.index_select(0, order);
  return rows;
}

at::Tensor exchanged(std::int64_t a, std::int64_t b) {
  at::Tensor order = torch::arange(kRows, torch::kLong);
  order[a] = b;
  order[b] = a;
  return order;
}

std::shared_ptr<const Dataset> in_memory(Batch rows) { return std::make_shared<TensorDataset>(std::move(rows)); }

// As a program's own dataset: it writes no digests.
class OwnRows : public Dataset {
 public:
  explicit OwnRows(Batch rows, std::function<void()> on_read = nullptr)
      : rows_(std::move(rows)), on_read_(std::move(on_read)) {}
  std::int64_t size() const override { return rows_.size(); }

 private:
  Example do_get(std::int64_t index) const override {
    if (on_read_) on_read_();
    return rows_.get(index);
  }
  TensorDataset rows_;
  std::function<void()> on_read_;
};

std::shared_ptr<const Dataset> own(Batch rows) { return std::make_shared<OwnRows>(std::move(rows)); }

void give_files(TrainerOptions& options, const std::string& activation, const std::string& path,
                const std::string& words) {
  dynamic_cast<AdaptedModule<TokenNetImpl>&>(*options.model)
      .set_files({{"config.json", R"({"hidden_act": ")" + activation + R"(", "_name_or_path": ")" + path + R"("})"},
                  {"vocab.txt", words}});
}

TrainerOptions options_with(std::shared_ptr<const Dataset> data, const std::string& folder) {
  TrainerOptions options;
  options.model = adapt_token_net(make_token_net());
  give_files(options, "gelu", "here", "one\n");
  options.train_dataset = std::move(data);
  options.train_file = "rows.csv";
  options.eval_file = "tests.csv";
  options.data_arguments = {{"classes", {"no", "yes"}}};
  options.args.output_dir = folder;
  options.args.per_device_train_batch_size = 4;
  options.args.max_steps = 2;
  options.args.save_strategy = "no";
  options.print = nullptr;
  return options;
}

std::string text_of_refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

// What each of three ranks is refused with, if `change` has changed the options of rank 1. Empty: it is not.
std::vector<std::string> refusals(std::shared_ptr<const Dataset> data,
                                  const std::function<void(TrainerOptions&)>& change,
                                  const std::function<void(Trainer&)>& call) {
  constexpr int kRanks = 3;
  const TemporaryFolder folder;
  std::vector<std::string> texts(kRanks);
  spawn_threads(kRanks, [&](const std::shared_ptr<Communicator>& group) {
    TrainerOptions options = options_with(data, folder.path());
    options.process_group = group;
    if (group->rank() == 1) change(options);
    Trainer trainer(options);
    texts[static_cast<std::size_t>(group->rank())] = text_of_refusal([&] { call(trainer); });
  });
  return texts;
}

void expect_all(const std::vector<std::string>& texts, const std::vector<std::string>& parts) {
  for (const std::string& text : texts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

struct DataCase {
  const char* name;
  std::function<void(TrainerOptions&)> change;  // of rank 1
  std::vector<std::string> want;
  friend std::ostream& operator<<(std::ostream& out, const DataCase& each) { return out << each.name; }
};

void read_on_rank_1(TrainerOptions& options, const std::shared_ptr<const Dataset>& data) {
  options.train_dataset = data;
  options.train_file = "of_rank_1.csv";
}

std::shared_ptr<const Dataset> with_another_label(std::int64_t row) {
  Batch rows = rows_of_tokens();
  rows.at("labels")[row] += 1;
  return in_memory(rows);
}

const std::vector<DataCase> kOtherData{
    {"order",
     [](TrainerOptions& options) {
       read_on_rank_1(options, in_memory(in_order(rows_of_tokens(), exchanged(41, 150))));
     },
     {"rank 1 has the samples of rank 0 in another order; the first that differs is sample 41, counted from 0",
      "of_rank_1.csv of rank 1, rows.csv of rank 0"}},
    {"count",
     [](TrainerOptions& options) { read_on_rank_1(options, in_memory(rows_of_tokens(kRows + 1))); },
     {"rank 1 has 201 samples, and rank 0 200 samples", "of_rank_1.csv of rank 1"}},
    {"first_label",
     [](TrainerOptions& options) { read_on_rank_1(options, with_another_label(0)); },
     {"rank 1 has other samples than rank 0; the first that differs is sample 0,"}},
    {"last_label",
     [](TrainerOptions& options) { read_on_rank_1(options, with_another_label(kRows - 1)); },
     {"the first that differs is sample 199,"}},
    {"dtype",
     [](TrainerOptions& options) {
       Batch rows = rows_of_tokens();
       rows.at("labels") = rows.at("labels").to(torch::kInt);
       read_on_rank_1(options, in_memory(rows));
     },
     {"rank 1 has other samples than rank 0"}},
    {"subset",
     [](TrainerOptions& options) {
       std::vector<std::int64_t> indices;
       for (std::int64_t i = 0; i < kRows; ++i) indices.push_back(i == 77 ? 78 : i);
       read_on_rank_1(options, std::make_shared<SubsetDataset>(in_memory(rows_of_tokens()), indices));
     },
     {"the first that differs is sample 77,"}},
    {"classes",
     [](TrainerOptions& options) {
       options.data_arguments["classes"] = {"no", "maybe", "yes"};
     },
     {"classes has 3 entries for rank 1, and 2 for rank 0; number 1, counted from 0, is \"maybe\", and \"yes\"",
      "have not read the same data"}},
    {"evaluation",
     [](TrainerOptions& options) { options.eval_dataset = in_memory(rows_of_tokens(7)); },
     {"evaluation data: rank 1 has 7 samples, and rank 0 none"}},
    {"scores_of_evaluation",
     [](TrainerOptions& options) {
       options.data_arguments["eval_label_values"] = {"0.5", "0.7"};
       options.eval_file = "tests_of_rank_1.csv";
     },
     {"eval_label_values is [\"0.5\",\"0.7\"] for rank 1, and not given for rank 0",
      "tests_of_rank_1.csv of rank 1, tests.csv of rank 0"}},
    {"scores",
     [](TrainerOptions& options) {
       options.data_arguments["label_values"] = {"0.5", "0.7"};
     },
     {"rows.csv of rank 1, rows.csv of rank 0"}},
    {"lengths",
     [](TrainerOptions& options) {
       options.args.group_by_length = true;
       options.lengths.assign(kRows, 5);
     },
     {"group_by_length is true for rank 1, and false for rank 0", "do not have the same arguments"}},
    {"seed",
     [](TrainerOptions& options) { options.args.data_seed = 4; },
     {"data_seed is 4 for rank 1, and not given for rank 0", "start all ranks with the same arguments"}},
    {"rate",
     [](TrainerOptions& options) { options.args.learning_rate = 0.5; },
     {"learning_rate is 0.5 for rank 1, and 5e-05 for rank 0"}},
    {"saving",
     [](TrainerOptions& options) { options.args.save_steps = 3; },
     {"save_steps is 3 for rank 1, and 500 for rank 0", "do not have the same arguments"}},
    {"limit",
     [](TrainerOptions& options) { options.args.save_total_limit = 1; },
     {"save_total_limit is 1 for rank 1, and not given for rank 0", "do not have the same arguments"}},
    {"filter",
     [](TrainerOptions& options) { options.args.logging_nan_inf_filter = true; },
     {"logging_nan_inf_filter is true for rank 1, and false for rank 0"}},
    {"resuming",
     [](TrainerOptions& options) { options.args.resume_from_checkpoint = "true"; },
     {"resume_from_checkpoint is \"true\" for rank 1, and not given for rank 0"}},
    {"model",
     [](TrainerOptions& options) { give_files(options, "relu", "here", "one\n"); },
     {"the ranks do not have the same model; config.json: hidden_act is \"relu\" for rank 1, and \"gelu\" for rank 0"}},
    {"vocabulary",
     [](TrainerOptions& options) { give_files(options, "gelu", "here", "two\n"); },
     {"the ranks do not have the same model; vocab.txt is"}},
};

class OtherData : public ::testing::TestWithParam<DataCase> {};

TEST_P(OtherData, IsRefusedOnAllRanksWithTheFirstDifference) {
  const auto texts =
      refusals(in_memory(rows_of_tokens()), GetParam().change, [](Trainer& trainer) { trainer.train(); });
  expect_all(texts, GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(Table, OtherData, ::testing::ValuesIn(kOtherData),
                         [](const auto& test) { return test.param.name; });

// A new argument must be in one of the lists.
TEST(TrainingData, EveryArgumentIsComparedOrMayDiffer) {
  std::map<std::string, int> lists;
  for (const char* name : kSharedArguments) ++lists[name];
  for (const char* name : kArgumentsOfLoop) ++lists[name];
  for (const char* name : kArgumentsOfStart) ++lists[name];
  for (const char* name : kOwnArguments) ++lists[name];
  for (const TrainingArgumentRow& row : training_argument_table()) {
    EXPECT_EQ(lists[row.name], 1) << row.name << ": put it into one list of compared_arguments.h";
  }
  EXPECT_EQ(lists.size(), training_argument_table().size()) << "a list names something else than arguments";
}

TEST(TrainingData, EqualSamplesInOtherMemoryAreEqualData) {
  const auto halves = [](TrainerOptions& options) {
    std::vector<std::int64_t> first, second;
    for (std::int64_t i = 0; i < kRows; ++i) (i < 90 ? first : second).push_back(i);
    const auto all = in_memory(rows_of_tokens());
    options.train_dataset = std::make_shared<ConcatDataset>(std::vector<std::shared_ptr<const Dataset>>{
        std::make_shared<SubsetDataset>(all, first), std::make_shared<SubsetDataset>(all, second)});
    options.train_file = "elsewhere/rows.csv";
    options.args.dataloader_num_workers = 1;
    give_files(options, "gelu", "there", "one\n");
  };
  const auto texts = refusals(in_memory(rows_of_tokens()), halves, [](Trainer& trainer) { trainer.train(); });
  for (const std::string& text : texts) EXPECT_EQ(text, "");
}

TEST(TrainingData, ARankWithoutEvaluationDataIsSaidToHaveNone) {
  constexpr int kRanks = 2;
  const TemporaryFolder folder;
  std::vector<std::string> texts(kRanks);
  spawn_threads(kRanks, [&](const std::shared_ptr<Communicator>& group) {
    TrainerOptions options = options_with(in_memory(rows_of_tokens()), folder.path());
    options.process_group = group;
    options.eval_file.clear();
    if (group->rank() == 1) {
      options.eval_dataset = in_memory(rows_of_tokens(7));
      options.eval_file = "val.csv";
    }
    Trainer trainer(options);
    texts[static_cast<std::size_t>(group->rank())] = text_of_refusal([&] { trainer.train(); });
  });
  expect_all(texts, {"val.csv of rank 1, rank 0 has no evaluation data"});
}

TEST(TrainingData, AnEvaluationOrPredictionIsRefusedToo) {
  const auto evaluates = [](TrainerOptions& options) {
    options.eval_dataset = with_another_label(120);
    options.eval_file = "of_rank_1.csv";
  };
  expect_all(
      refusals(nullptr, evaluates,
               [](Trainer& trainer) { trainer.evaluate(trainer.rank() == 1 ? nullptr : in_memory(rows_of_tokens())); }),
      {"evaluation data: rank 1 has other samples than rank 0; the first that differs is sample 120",
       "of_rank_1.csv of rank 1, the program's dataset of rank 0"});
  expect_all(refusals(
                 nullptr, [](TrainerOptions& /*options*/) {},
                 [](Trainer& trainer) { trainer.predict(in_memory(rows_of_tokens(6 + trainer.rank()))); }),
             {"evaluation data: rank 1 has 7 samples, and rank 0 6 samples"});
}

// Each rank would judge its share by other weights.
TEST(TrainingData, AnEvaluationByOtherWeightsIsRefused) {
  const auto changes = [](TrainerOptions& options) {
    const at::NoGradGuard no_grad;
    options.model->tensors().parameters.back().tensor.add_(1e-6);
  };
  for (const bool predicts : {false, true}) {
    expect_all(refusals(nullptr, changes,
                        [&](Trainer& trainer) {
                          const auto data = in_memory(rows_of_tokens());
                          predicts ? void(trainer.predict(data)) : void(trainer.evaluate(data));
                        }),
               {"the ranks do not have the same weights; ", " of rank 1 is not that of rank 0"});
  }
}

// A dataset of the program's own is compared as far as a few of its samples show.
TEST(TrainingData, AProgramsOwnDatasetIsLookedAt) {
  const auto other_order = [](TrainerOptions& options) {
    options.train_dataset = own(in_order(rows_of_tokens(), torch::arange(kRows - 1, -1, -1, torch::kLong)));
  };
  expect_all(refusals(own(rows_of_tokens()), other_order, [](Trainer& trainer) { trainer.train(); }),
             {"rank 1 has other samples than rank 0; the first that differs is sample"});
}

// A look takes 50 ms, which a small evaluation would take again and again.
TEST(TrainingData, ARepeatedEvaluationReadsLittleMoreThanItEvaluates) {
  for (const int ranks : {1, 2}) {
    std::vector<std::int64_t> reads(static_cast<std::size_t>(ranks));
    const TemporaryFolder folder;
    spawn_threads(ranks, [&](const std::shared_ptr<Communicator>& group) {
      std::int64_t count = 0;
      TrainerOptions options = options_with(nullptr, folder.path());
      options.process_group = group;
      options.eval_dataset = std::make_shared<OwnRows>(rows_of_tokens(), [&] { ++count; });
      Trainer trainer(options);
      trainer.evaluate();
      count = 0;
      trainer.evaluate();
      reads[static_cast<std::size_t>(group->rank())] = count;
    });
    for (const std::int64_t count : reads) EXPECT_LE(count, kRows / ranks + (ranks == 1 ? 0 : 8));
  }
}

TEST(TrainingData, SamplesThatAreDrawnAtRandomOrCannotBeReadAreNotCompared) {
  std::int64_t drawn = 0;
  Batch rows = rows_of_tokens();
  const OwnRows random(rows, [&] { rows.at("input_ids") = rows.at("input_ids").fill_(++drawn); });
  EXPECT_TRUE(digest_of(&random).parts.empty());
  const OwnRows failing(rows, [] { throw std::runtime_error("no such image"); });
  EXPECT_TRUE(digest_of(&failing).parts.empty());
  EXPECT_EQ(digest_of(&failing).samples, kRows);
  EXPECT_FALSE(find_difference(digest_of(&random), digest_of(own(rows_of_tokens()).get())));
}

TEST(TrainingData, SamplesToLookAtSpreadAndComeOnce) {
  for (const std::int64_t samples : {1, 2, 3, 7, 100, 1024, 1597}) {
    std::vector<bool> seen(static_cast<std::size_t>(samples));
    for (std::int64_t n = 0; n < samples; ++n) seen.at(static_cast<std::size_t>(looked_at(n, samples))) = true;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), samples);
  }
  EXPECT_LT(looked_at(5, 1'000'000'000'000), 1'000'000'000'000);
}

TEST(TrainingData, ADigestIsReadAsItWasWritten) {
  const DataDigest digest = digest_of(in_memory(rows_of_tokens()).get(), "rows.csv");
  const DataDigest read = data_digest_of(json_of(digest)).value();
  EXPECT_EQ(read.parts, digest.parts);
  EXPECT_EQ(read.unordered, digest.unordered);
  EXPECT_EQ(read.samples, kRows);
  EXPECT_EQ(read.source, "rows.csv");
  EXPECT_FALSE(data_digest_of(nlohmann::json::parse(R"({"samples": "many"})")));
  EXPECT_FALSE(data_digest_of(nlohmann::json()));
}

// A training of two steps, of which a checkpoint has the first.
class OtherDataThanSaved : public ::testing::Test {
 protected:
  OtherDataThanSaved() {
    TrainerOptions options = options_to_save(in_memory(rows_of_tokens()));
    options.args.max_steps = 1;
    Trainer(options).train();
  }
  TrainerOptions options_to_save(std::shared_ptr<const Dataset> data) {
    TrainerOptions options = options_with(std::move(data), folder_.path());
    options.eval_dataset = in_memory(rows_of_tokens(8));
    options.args.save_strategy = "steps";
    options.args.save_steps = 1;
    options.print = [this](const std::string& line) { printed_ += line; };
    return options;
  }
  std::string refusal(TrainerOptions options) {
    options.args.resume_from_checkpoint = "true";
    return text_of_refusal([&] { Trainer(options).train(); });
  }

  TemporaryFolder folder_;
  std::string printed_;
};

TEST_F(OtherDataThanSaved, AreRefused) {
  const std::string text = refusal(options_to_save(with_another_label(100)));
  for (const char* part : {"the checkpoint was trained on other data",
                           "this run has other samples than the checkpoint; the first that differs is among the "
                           "samples 100 to 103",
                           "rows.csv", "checkpoint-1", "start a new training from its weights"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  TrainerOptions renamed = options_to_save(in_memory(rows_of_tokens()));
  renamed.data_arguments["classes"] = {"no", "Yes"};
  EXPECT_NE(refusal(renamed).find("is \"Yes\", and \"yes\""), std::string::npos);
}

// Its weights do not fit then, and their shapes would say nothing of the file.
TEST_F(OtherDataThanSaved, AreRefusedByTheirNumberOfClassesBeforeAnyWeights) {
  TrainerOptions options = options_to_save(in_memory(rows_of_tokens()));
  options.data_arguments["classes"] = {"no", "oh", "yes"};
  const std::string text = refusal(options);
  for (const char* part : {"the data has 3 classes, and the checkpoint 2; the checkpoint does not have \"oh\"",
                           "where: rows.csv, ", "checkpoint-1", "--ignore-mismatched-sizes"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  options.data_arguments["classes"] = {"yes"};
  EXPECT_NE(refusal(options).find("has 1 class, and the checkpoint 2; the data does not have \"no\""),
            std::string::npos);
}

TEST_F(OtherDataThanSaved, LeaveNoFolderBehindThatTheRefusedTrainingHasMade) {
  const auto refuse_in = [&](const std::string& folder) {
    TrainerOptions options = options_to_save(with_another_label(100));
    options.args.output_dir = folder;
    options.args.resume_from_checkpoint = folder_ / "checkpoint-1";
    return text_of_refusal([&] { Trainer(options).train(); });
  };
  EXPECT_NE(refuse_in(folder_ / "new/inner/"), "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
  std::filesystem::create_directory(folder_ / "own");
  EXPECT_NE(refuse_in(folder_ / "own"), "");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "own")) << "it was there before";
}

TEST_F(OtherDataThanSaved, AreTakenIfTheArgumentsSayThatTheyArePreparedOtherwise) {
  TrainerOptions cut = options_to_save(with_another_label(100));
  cut.data_arguments["max_length"] = 3;
  EXPECT_EQ(refusal(cut), "");
}

TEST_F(OtherDataThanSaved, EvaluationDataAreWarnedAbout) {
  TrainerOptions options = options_to_save(in_memory(rows_of_tokens()));
  options.eval_dataset = in_memory(rows_of_tokens(9));
  EXPECT_EQ(refusal(options), "");
  EXPECT_NE(printed_.find("evaluation data: this run has 9 samples, and the checkpoint 8 samples"), std::string::npos)
      << printed_;
}

}  // namespace
}  // namespace lockstep
