#include "lockstep/data/text/encoders/wordpiece_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/data/text/tokenizer.h"
#include "tests/data/text/small_tokenizers.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

std::vector<std::string> trained(const std::vector<std::string>& texts, WordPieceTrainerOptions options) {
  WordPieceTrainer trainer(options);
  for (const std::string& text : texts) trainer.add(text);
  return trainer.train();
}

TEST(WordPieceTrainer, JoinsTheMostFrequentNeighbours) {
  WordPieceTrainerOptions options;
  options.vocab_size = 100;
  options.min_frequency = 2;
  // hug x 3, pug x 2, hugs x 1: ##u##g occurs 6 times, h##ug 4, p##ug 2; ##ug##s and hug##s once.
  EXPECT_EQ(trained({"hug hug pug", "Hug PUG hugs"}, options),
            (std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "g", "h", "p", "s", "u", "##g",
                                      "##s", "##u", "##ug", "hug", "pug"}));
  options.vocab_size = 14;
  EXPECT_EQ(trained({"hug hug pug", "Hug PUG hugs"}, options).back(), "##ug");
  options.vocab_size = 100;
  options.min_frequency = 1;
  EXPECT_EQ(trained({"hug hug pug", "Hug PUG hugs"}, options).back(), "hugs");
}

TEST(WordPieceTrainer, RepeatedLettersJoinFromTheLeft) {
  WordPieceTrainerOptions options;
  options.vocab_size = 9;  // special tokens, "a", "##a", then two pieces
  // a ##a x4: ##a##a occurs 3 times 2, a##a 2; then ##aa##aa, a##aa, once in each word.
  EXPECT_EQ(trained({"aaaaa aaaaa"}, options),
            (std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "##aa", "aaa"}));
}

TEST(WordPieceTrainer, DoesNotDependOnTheOrderOfTexts) {
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    texts.push_back("boat boats harbour " + std::to_string(i * 7919 % 1000) + " é日本 " + std::string(1 + i % 5, 'z'));
  }
  WordPieceTrainerOptions options;
  options.vocab_size = 200;
  const auto forwards = trained(texts, options);
  std::reverse(texts.begin(), texts.end());
  EXPECT_EQ(trained(texts, options), forwards);
  EXPECT_EQ(std::count(forwards.begin(), forwards.end(), "harbour"), 1);
  EXPECT_LE(forwards.size(), 200U);
  // No token is repeated.
  auto sorted = forwards;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
}

TEST(WordPieceTrainer, CutsTheTextsItLearnedFrom) {
  WordPieceTrainerOptions options;
  options.vocab_size = 120;
  options.limit_alphabet = 30;
  const std::string text = "The boats lay still on the grey water, and nobody came. The boats lay still!";
  const TemporaryFolder folder;
  write_text(folder / "vocab.txt", lines(trained({text, "\xE6\x97\xA5"}, options)));
  const Tokenizer tokenizer = load_bert_vocabulary(folder / "vocab.txt");
  const auto ids = inner_ids(tokenizer, text);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer.unk_id()), 0);
  EXPECT_EQ(tokenizer.decode(ids), "the boats lay still on the grey water, and nobody came. the boats lay still!");
}

TEST(WordPieceTrainer, LimitsTheAlphabetToTheMostFrequent) {
  WordPieceTrainerOptions options;
  options.limit_alphabet = 2;
  options.min_frequency = 100;
  EXPECT_EQ(trained({"ab ab ac b"}, options),
            (std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b"}));
}

TEST(WordPieceTrainer, KeepsCaseAndAccentsWhereAsked) {
  WordPieceTrainerOptions options;
  options.normalizer.lowercase = false;
  const auto tokens = trained({"\xC3\x89t\xC3\xA9 \xC3\x89t\xC3\xA9"}, options);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), "\xC3\x89t\xC3\xA9"), 1);
}

TEST(WordPieceTrainer, SaysWhatIsWrong) {
  WordPieceTrainerOptions options;
  expect_error("the texts have no word to learn from", [&] { trained({" ", "\t"}, options); });
  expect_error("the texts have no word to learn from", [&] { trained({std::string(101, 'a')}, options); });
  options.vocab_size = 8;
  expect_error("vocab_size 8 is less than the 9 special tokens and characters", [&] { trained({"ab ba"}, options); });
  options.vocab_size = -1;
  expect_error("vocab_size -1", [&] { trained({"a"}, options); });
}

}  // namespace
}  // namespace lockstep
