// Files and models that are not for Lockstep are called by their names, and the fix leads on.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "lockstep/models/bert_heads.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

// What a training on the file, or with more flags, says in place of training.
std::string refused_training(const std::string& file, const CommandWords& more = {}) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_command(without_program(text_classification(file, folder / "out", more)));
  EXPECT_TRUE(end.code == 1 || end.code == 2) << end.code << end.err;
  return end.err;
}

struct ForeignFile {
  const char* name;
  std::string bytes;
  const char* says;
  friend std::ostream& operator<<(std::ostream& out, const ForeignFile& file) { return out << file.name; }
};

class ForeignFiles : public ::testing::TestWithParam<ForeignFile> {};

TEST_P(ForeignFiles, AreCalledByTheirFormat) {
  const TemporaryFolder folder;
  const std::string bytes = GetParam().bytes + std::string(64, '\1');
  for (const char* name : {"rows.csv", "rows.jsonl", "rows.txt.other"}) {
    const std::string said = refused_training(write_lines(folder / name, bytes));
    EXPECT_TRUE(says(said, std::string("the file is ") + GetParam().says)) << name << ": " << said;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ForeignFiles,
                         ::testing::Values(ForeignFile{"bzip2", "BZh91AY&SY", "bzip2-compressed"},
                                           ForeignFile{"zip", "PK\x03\x04", "a zip archive"},
                                           ForeignFile{"arrow", "ARROW1", "an Arrow file"},
                                           ForeignFile{"arrow_stream", "\xff\xff\xff\xff", "a stream of Arrow"},
                                           ForeignFile{"parquet", "PAR1", "Parquet"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ForeignFolders, OfDatasetsAndOfImagesSaySo) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "saved");
  write_lines(folder / "saved/dataset_info.json", "{}");
  EXPECT_TRUE(says(refused_training(folder / "saved"), "datasets.save_to_disk")) << refused_training(folder / "saved");
  write_lines(folder / "saved/dataset_dict.json", R"({"splits": ["train", "test"]})");
  EXPECT_TRUE(says(refused_training(folder / "saved"), "several splits of a dataset: train, test"));
  std::filesystem::create_directories(folder / "pngs/train/0");
  write_lines(folder / "pngs/train/0/1.png", "\x89PNG");
  const ProgramEnd images = run_command({"train", "--task", "image-classification", "--model", "convnet",
                                         "--train-file", folder / "pngs/train", "--output-dir", folder / "out"});
  EXPECT_TRUE(says(images.err, "images as files, such as " + folder / "pngs/train/0/1.png")) << images.err;
  EXPECT_FALSE(says(images.err, "download")) << images.err;
}

TEST(ForeignJson, IsToldFromRowsAndFromSquad) {
  const TemporaryFolder folder;
  const std::string data =
      refused_training(write_lines(folder / "a.json", R"({"data": [{"text": "a", "label": "b"}]})"));
  EXPECT_TRUE(says(data, "whose list \"data\" has the rows")) << data;
  EXPECT_TRUE(says(data, "jq -c '.data[]'")) << data;
  const std::string columns =
      refused_training(write_lines(folder / "b.json", R"({"text": {"0": "a"}, "label": {"0": "b"}})"));
  EXPECT_TRUE(says(columns, "orient=\"records\", lines=True")) << columns;
  const std::string surrogate =
      refused_training(write_lines(folder / "c.jsonl", "{\"text\": \"\\ud800\", \"label\": \"a\"}\n"));
  EXPECT_TRUE(says(surrogate, "surrogate")) << surrogate;
}

TEST(ForeignModels, AreRefusedBeforeTheirTokenizerAndWithTheCure) {
  const TemporaryFolder folder;
  const std::string rows = write_lines(folder / "rows.csv", "text,label\ngood,a\nbad,b\n");
  std::filesystem::create_directories(folder / "falcon");
  write_lines(folder / "falcon/config.json", R"({"model_type": "falcon", "architectures": ["FalconForCausalLM"]})");
  write_lines(folder / "falcon/tokenizer.json", R"({"model": {"type": "Unigram"}})");
  const ProgramEnd falcon = run_command({"train", "--task", "text-classification", "--model", folder / "falcon",
                                         "--train-file", rows, "--output-dir", folder / "out"});
  EXPECT_TRUE(says(falcon.err, "is \"falcon\", for which there is no such model")) << falcon.err;
  EXPECT_FALSE(says(falcon.err, "Unigram")) << falcon.err;

  BertConfig config;
  config.vocab_size = 2000;
  config.hidden_size = 8;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.intermediate_size = 12;
  BertForMaskedLM(config)->save_pretrained(folder / "bert");
  const ProgramEnd causal = run_command({"train", "--task", "language-modeling", "--model", folder / "bert",
                                         "--tokenizer", kShipped + "reviews-vocab", "--train-file",
                                         write_lines(folder / "rows.txt", "good\n"), "--output-dir", folder / "out"});
  EXPECT_TRUE(says(causal.err, "is \"bert\", which does not predict the next token")) << causal.err;
  EXPECT_TRUE(says(causal.err, "give --mlm")) << causal.err;

  std::filesystem::create_directories(folder / "ner");
  write_lines(folder / "ner/config.json", R"({"model_type": "bert", "architectures": ["BertForTokenClassification"]})");
  const ProgramEnd ner = run_command({"predict", "--model", folder / "ner"}, "good\n");
  EXPECT_TRUE(says(ner.err, "BertForTokenClassification, which labels each token")) << ner.err;

  const ProgramEnd merged = run_command({"merge-weights", folder / "bert", folder / "merged"});
  EXPECT_TRUE(says(merged.err, "is the folder of a model, whose weights are whole")) << merged.err;
}

TEST(ForeignRows, WithoutLabelsAreForPredict) {
  const TemporaryFolder folder;
  const std::string rows = write_lines(folder / "rows.csv", "text,label\ngood,a\nbad,b\n");
  const std::string bare = write_lines(folder / "bare.csv", "text\ngood\n");
  const std::string said = refused_training(rows, {"--validation-file", bare});
  EXPECT_TRUE(says(said, "lockstep predict")) << said;
}

}  // namespace
}  // namespace lockstep
