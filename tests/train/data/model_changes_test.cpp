// Trainings that continue with another config.json or tokenizer than that with which they were begun.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/train/checks/model_settings.h"
#include "lockstep/train/checks/training_data.h"
#include "lockstep/train/trainer_context.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

using Files = std::map<std::string, std::string>;

const Files kFilesAtFirst{
    {"config.json", R"({"hidden_act": "gelu", "heads": {"first": 2, "last": 2}, "_name_or_path": "here"})"},
    {"tokenizer_config.json", R"({"mask_token": "[MASK]", "model_max_length": 512})"},
    {"vocab.txt", "one\ntwo\n"},
    {"README.md", "of Monday"}};

Files with_file(const std::string& name, const std::string& text) {
  Files files = kFilesAtFirst;
  files[name] = text;
  return files;
}

void give_model_files(TrainerOptions& options, const Files& files) {
  dynamic_cast<AdaptedModule<TokenNetImpl>&>(*options.model).set_files(files);
}

nlohmann::json settings_of(const Files& files) {
  TokenTraining training;
  give_model_files(training.options, files);
  return model_settings(*training.options.model);
}

struct ChangeCase {
  const char* name;
  Files files;
  std::string want;  // a line of a training that resumes with them; empty: none
  friend std::ostream& operator<<(std::ostream& out, const ChangeCase& each) { return out << each.name; }
};

const std::vector<ChangeCase> kChanges{
    {"same", kFilesAtFirst, ""},
    {"activation", with_file("config.json", R"({"hidden_act": "relu", "heads": {"first": 2, "last": 2}})"),
     R"(config.json: hidden_act is "relu" for this run, and "gelu" for the checkpoint: from here on, this run's counts)"},
    {"inner", with_file("config.json", R"({"hidden_act": "gelu", "heads": {"first": 2, "last": 1}})"),
     "config.json: heads.last is 1 for this run, and 2 for the checkpoint"},
    {"mask", with_file("tokenizer_config.json", R"({"mask_token": "[UNK]", "model_max_length": 512})"),
     R"(tokenizer_config.json: mask_token is "[UNK]" for this run, and "[MASK]" for the checkpoint)"},
    {"no_mask", with_file("tokenizer_config.json", "{}"),
     R"(tokenizer_config.json: mask_token is not given for this run, and "[MASK]" for the checkpoint)"},
    {"padding_id",
     with_file("config.json", R"({"hidden_act": "gelu", "heads": {"first": 2, "last": 2}, "pad_token_id": 3})"),
     "config.json: pad_token_id is 3 for this run, and not given for the checkpoint"},
    {"words", with_file("vocab.txt", "two\none\n"), "vocab.txt is another file for this run than for the checkpoint"},
    // Another program has saved the same model, or it lies elsewhere.
    {"more_settings", with_file("config.json", R"({"hidden_act": "gelu", "heads": {"first": 2, "last": 2},
      "transformers_version": "5.24.0", "id2label": {"0": "LABEL_0"}, "use_cache": true, "_name_or_path": "there"})"),
     ""},
    {"of_tokenizer", with_file("tokenizer_config.json", R"({"mask_token": "[MASK]", "model_max_length": 128,
      "padding_side": "right", "clean_up_tokenization_spaces": false, "backend": "tokenizers"})"),
     ""},
    {"text_about_it", with_file("README.md", "of Tuesday"), ""},
    {"of_answers", with_file("generation_config.json", R"({"temperature": 0.5})"), ""},
};

class ModelChanges : public ::testing::TestWithParam<ChangeCase> {};

std::string text_of(const std::vector<SettingDifference>& changes) {
  std::string text;
  for (const SettingDifference& each : changes) text += setting_text(each, "this start", "the job's memory") + "\n";
  return text;
}

TEST_P(ModelChanges, AreNamedWithBothValuesWhenATrainingResumes) {
  TokenTraining training;
  training.options.args.save_strategy = "steps";
  training.options.args.save_steps = 3;
  training.options.args.max_steps = 3;
  give_model_files(training.options, kFilesAtFirst);
  Trainer(training.options).train();
  training.printed.clear();
  training.options.args.max_steps = 4;
  training.options.args.resume_from_checkpoint = "true";
  give_model_files(training.options, GetParam().files);
  Trainer(training.options).train();
  EXPECT_TRUE(training.has_printed("Continuing from"));
  const bool has_any = training.has_printed("for the checkpoint");
  if (GetParam().want.empty()) {
    EXPECT_FALSE(has_any) << ::testing::PrintToString(training.printed);
    return;
  }
  EXPECT_TRUE(training.has_printed(GetParam().want)) << ::testing::PrintToString(training.printed);
  EXPECT_TRUE(training.has_printed("--model " + training.folder / "checkpoint-3 takes both from there"));
}

// The ranks that are gone had another model: their weights are not its.
TEST_P(ModelChanges, AreAChangeSinceTheLaunchersMemory) {
  const auto data_with = [](const Files& files) {
    TokenTraining training;
    give_model_files(training.options, files);
    TrainerContext context;
    context.options = training.options;
    return TrainingData(context);
  };
  const std::string change = data_with(GetParam().files).change_since(data_with(kFilesAtFirst).text());
  EXPECT_EQ(change.empty(), GetParam().want.empty()) << change;
  EXPECT_EQ(change.empty(), text_of(model_changes(settings_of(GetParam().files), settings_of(kFilesAtFirst))).empty());
}
INSTANTIATE_TEST_SUITE_P(Table, ModelChanges, ::testing::ValuesIn(kChanges),
                         [](const auto& test) { return test.param.name; });

// Masked language modelling spares special tokens, which are named there. A classifier's samples have them by
// tokenizer.json, so a job's memory need not be given up.
TEST(ModelChanges, SpecialTokensCountWhereTokensAreMasked) {
  const auto changes_with = [](const std::string& head) {
    const auto files = [&](const char* sep) {
      return Files{{"config.json", R"({"architectures": ["BertFor)" + head + R"("]})"},
                   {"tokenizer_config.json", std::string(R"({"pad_token": "[PAD]", "sep_token": ")") + sep + "\"}"}};
    };
    return text_of(model_changes(settings_of(files("[MASK]")), settings_of(files("[SEP]"))));
  };
  EXPECT_EQ(changes_with("SequenceClassification"), "");
  EXPECT_NE(changes_with("MaskedLM").find("sep_token is \"[MASK]\" for this start"), std::string::npos);
}

TEST(ModelChanges, OfAnOlderVersionsCheckpointAreNotKnown) {
  TokenTraining training;
  give_model_files(training.options, kFilesAtFirst);
  TrainerContext context;
  context.options = training.options;
  const TrainingData data(context);
  nlohmann::json older = nlohmann::json::parse(data.text());
  older.erase("model");
  EXPECT_TRUE(data.require_as_saved(older.dump(), "checkpoint-3").empty());
  EXPECT_TRUE(data.require_as_saved("", "checkpoint-3").empty());
  EXPECT_EQ(data.change_since(older.dump()), "");
}

// A tokenizer from which other samples follow: the file of the data is not to blame.
TEST(ModelChanges, ATokenizerThatMakesOtherSamplesIsNamed) {
  const auto data_with = [](const Files& files, std::uint64_t seed) {
    TokenTraining training;
    training.options.train_dataset = std::make_shared<TokenTaskDataset>(12, seed);
    training.options.train_file = "rows.csv";
    give_model_files(training.options, files);
    TrainerContext context;
    context.options = training.options;
    return TrainingData(context);
  };
  const std::string before = data_with(kFilesAtFirst, 3).text();
  const TrainingData now = data_with(with_file("vocab.txt", "two\none\n"), 4);
  EXPECT_EQ(now.change_since(before), "vocab.txt is another file for this start than for the job's memory");
  try {
    now.require_as_saved(before, "checkpoint-3");
    FAIL() << "it was not refused";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    for (const char* part : {"the checkpoint was trained on other data", "vocab.txt is another file for this run",
                             "and the tokenizer of the saved run"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
  }
  EXPECT_THROW(data_with(kFilesAtFirst, 4).change_since(before), UsageError);  // the file is
}

}  // namespace
}  // namespace lockstep
