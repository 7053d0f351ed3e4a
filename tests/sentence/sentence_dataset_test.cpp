#include "lockstep/sentence/sentence_dataset.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/text_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

Tokenizer review_tokenizer() { return load_tokenizer(LOCKSTEP_SOURCE_DIR "/data/reviews-vocab"); }

std::shared_ptr<const TextDataset> rows_of(const TemporaryFolder& folder, const std::string& csv,
                                           const std::vector<std::string>& texts, const std::string& label = "") {
  write_file_atomically(folder / "pairs.csv", csv);
  TextFileOptions options;
  options.texts = texts;
  options.label = label;
  options.fractions = true;
  return open_text_file(folder / "pairs.csv", options);
}

TEST(SentenceDataset, TokenizesEachTextOnItsOwn) {
  const TemporaryFolder folder;
  const auto rows = rows_of(
      folder, "a,b\nthe food was good,good food\nthe food was good,it was cold and late and nobody came to ask\n",
      {"a", "b"});
  const Tokenizer tokenizer = review_tokenizer();
  const SentenceDataset samples(*rows, tokenizer);
  ASSERT_EQ(samples.size(), 2);
  const Encoding alone = tokenizer.encode("good food");
  const at::Tensor ids = samples.get(0).at("input_ids_1");
  ASSERT_EQ(ids.numel(), static_cast<std::int64_t>(alone.ids.size()));
  for (std::size_t i = 0; i < alone.ids.size(); ++i) {
    EXPECT_EQ(ids[static_cast<std::int64_t>(i)].item<std::int64_t>(), static_cast<std::int64_t>(alone.ids[i]));
  }
  const at::Tensor first = samples.get(0).at("texts"), second = samples.get(1).at("texts");
  EXPECT_TRUE(first[0].equal(second[0])) << "equal texts have equal numbers";
  EXPECT_FALSE(first[1].equal(second[1]));
  EXPECT_EQ(samples.lengths()[1],
            std::max(samples.get(1).at("input_ids_0").numel(), samples.get(1).at("input_ids_1").numel()));

  const Batch batch = SentenceCollator(tokenizer)({samples.get(0), samples.get(1)});
  for (const char* text : {"_0", "_1"}) {
    const at::Tensor& of_text = batch.at(std::string("input_ids") + text);
    const at::Tensor& mask = batch.at(std::string("attention_mask") + text);
    EXPECT_EQ(of_text.sizes(), mask.sizes());
    for (std::int64_t row = 0; row < 2; ++row) {
      EXPECT_EQ(mask[row].sum().item<std::int64_t>(), samples.get(row).at(std::string("input_ids") + text).numel());
    }
  }
  EXPECT_LT(batch.at("input_ids_0").size(1), batch.at("input_ids_1").size(1)) << "padded field by field";
  EXPECT_TRUE(batch.at("labels").equal(batch.at("texts")));
}

TEST(SentenceDataset, KeepsTheRowsLabels) {
  const TemporaryFolder folder;
  const auto rows = rows_of(folder, "a,b,score\ngood,fine,0.5\nbad,fine,0.25\n", {"a", "b"}, "score");
  const SentenceDataset samples(*rows, review_tokenizer());
  const Batch batch = SentenceCollator(review_tokenizer())({samples.get(0), samples.get(1)});
  EXPECT_TRUE(batch.at("labels").equal(torch::tensor({rows->labels().at("0.5"), rows->labels().at("0.25")})));
}

TEST(SentenceDataset, RefusesRowsOfOneText) {
  const TemporaryFolder folder;
  const auto rows = rows_of(folder, "a\ngood\n", {"a"});
  expect_error("there is only one text column, \"a\"", [&] { SentenceDataset(*rows, review_tokenizer()); });
}

}  // namespace
}  // namespace lockstep
