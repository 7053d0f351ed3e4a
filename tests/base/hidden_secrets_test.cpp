// Which words of a command line are shown in a training's log and report.
#include "lockstep/base/text/hidden_secrets.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " | ") + word;
  return text;
}

// SECRET is never shown; what else there is stays.
TEST(HiddenSecrets, AreHiddenInEveryForm) {
  const std::vector<Words> commands{
      {"--token", "SECRET", "--epochs", "3"},
      {"--token", "-abcSECRET"},
      {"--token", "--SECRET"},
      {"--API-KEY=SECRET"},
      {"--hubToken", "SECRET"},
      {"--hubToken=SECRET"},
      {"--hub.token=SECRET"},
      {"hub.token=SECRET"},
      {"+hub.token=SECRET"},
      {"HF_TOKEN=SECRET"},
      {"--env", "HF_TOKEN=SECRET"},
      {"--env=HF_TOKEN=SECRET"},
      {"-eHF_TOKEN=SECRET"},
      {"WANDB_API_KEY=SECRET=="},
      {"--header", "Authorization: Bearer SECRET"},
      {"--header", "Authorization:", "Bearer", "SECRET"},
      {"--header", "authorization:SECRET"},
      {"--header=X-Api-Key: SECRET"},
      {"--header", "Proxy: Bearer SECRET"},
      {"-H", "Cookie: session=SECRET"},
      {"--store", "https://u:SECRET@host/path"},
      {"--store", "https://SECRET@host/path"},
      {"--store=redis://:SECRET@host:6379/0"},
      {"--store", "postgres://u:SEC@RETSECRET@host/db"},
      {"--user", "me:SECRET@host"},
      {"--data", "https://h/x?token=SECRET"},
      {"--data", "https://h/x?a=1&X-Amz-Signature=SECRET&b=2"},
      {"--data=s3://h/x?access_key=SECRET#part"},
      {"--data", "https://h/x#access_token=SECRET"},
      {"--data", "https://h/x?sv=1&sig=SECRET"},
      {"--pass", "SECRET"},
      {"--pwd=SECRET"},
      {"--passphrase", "SECRET"},
      {"--pass-word=SECRET"},
      {"--dbPassword", "SECRET"},
      {"PGPASSWORD=SECRET"},
      {"--tokens=SECRET"},
      {"--keys", "SECRET"},
      {"--key=SECRET"},
      {"--accesskey", "SECRET"},
      {"--APIKey=SECRET"},
      {"--credential", "SECRET"},
      {"--credentials=SECRET"},
      {"--auth", "SECRET"},
      {"--oauth2", "SECRET"},
      {"--bearer", "SECRET"},
      {"--wandb-api-key", "SECRET"},
      {"--aws-secret-access-key=SECRET"},
      {"--secret-file", "SECRET"},
      {"--client_secret", "SECRET"},
      {"-token", "SECRET"},
      {"--tokenizer.token=SECRET"},
      {"--token-id", "SECRET"},
      {"--new-token", "SECRET"},
      {"--options", R"({"token": "SECRET", "top_k": 3})"},
      {"--options={'apiKey':'SECRET'}"},
      {"bash", "-c", "HF_TOKEN=SECRET lockstep train"},
      {"--note", "hf_SECRETabcdef0123456789"},
      {"--note", "see hf_SECRETabc, please"},
      {"--note=ghp_SECRET0123456789"},
      {"github_pat_SECRET"},
      {"sk-proj-SECRET0123"},
      {"AKIASECRETEXAMPLE7"},
      {"xoxb-SECRET-12"},
      {"glpat-SECRET_1"},
      {"/data/hf_SECRET1234"},
      {"BEARER SECRET"},
      {"--options", R"({"password":"a\"SECRET"})"},
      {"--key-file", "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----"},
      {"--post-to", "https://hooks.slack.com/services/T/B/SECRET"},
      {"https://discord.com/api/webhooks/1/SECRET"},
      {"--url=https://api.telegram.org/bot1:SECRET/sendMessage"},
  };
  for (const Words& words : commands) {
    const std::string shown = joined(with_hidden_secrets(words));
    EXPECT_EQ(shown.find("SECRET"), std::string::npos) << joined(words) << " is shown as " << shown;
    EXPECT_NE(shown.find("..."), std::string::npos) << joined(words) << " is shown as " << shown;
  }
}

// Words that belong together although the shell has cut them, and forms of other programs.
TEST(HiddenSecrets, AreHiddenOverSeveralWords) {
  const std::vector<Words> commands{
      {"--tokens", "SECRET1", "SECRET2"},
      {"--secrets", "SECRET", "SECRET", "--epochs", "3"},
      {"--token", "", "SECRET"},
      {"--token", "--SECRET-of-mine", "--epochs", "3"},
      {"--auth", "Digest", "SECRET"},
      {"--header", "Authorization:Bearer", "SECRET"},
      {"--header=Authorization:", "SECRET"},
      {"-H", "Authorization:", "Token", "SECRET"},
      {"BEARER", "SECRET"},
      {"login", "token", "SECRET"},
      {"login", "password", "SECRET"},
      {"-u", "user:SECRET", "https://host"},
      {"-uuser:SECRET"},
      {"--user=u:SECRET"},
      {"--proxy-user", "u:SECRET"},
      {"--login", "me:SECRET"},
  };
  for (const Words& words : commands) {
    const std::string shown = joined(with_hidden_secrets(words));
    EXPECT_EQ(shown.find("SECRET"), std::string::npos) << joined(words) << " is shown as " << shown;
  }
  // Nothing tells this value from a flag but that the one before it takes a value.
  EXPECT_EQ(joined(with_hidden_secrets({"--token", "--secretvalue", "--epochs", "3"})), "--token | ... | --epochs | 3");
}

TEST(HiddenSecrets, AreHiddenInAddresses) {
  for (const char* address :
       {"u:SECRET@h/db", "//u:SECRET@h", "--store=u:SECRET@h/db", "postgres://u:p@SECRET/x@h/db",
        "postgres://u:SECRET/SECRET@h/db", "postgres://u:p?SECRET@h", "redis://:SECRET#1@h:6379"}) {
    const std::string shown = joined(with_hidden_secrets({address}));
    EXPECT_EQ(shown.find("SECRET"), std::string::npos) << address << " is shown as " << shown;
    EXPECT_NE(shown.find("@h"), std::string::npos) << address << " is shown as " << shown;
  }
}

TEST(HiddenSecrets, HaveManyNames) {
  for (const char* name :
       {"--pw", "--psw", "--pin", "--pin-code", "--otp", "--session-id", "--sessionid", "--license",
        "--max-session-token", "--num-workers-token", "--cls-api-token", "--sentry-dsn", "--wifi-psk",
        "--slack-webhook", "--connection-string", "--ssh-key-path", "--primary-api-token"}) {
    EXPECT_EQ(joined(with_hidden_secrets({name, "x1"})), std::string(name) + " | ...");
    EXPECT_EQ(joined(with_hidden_secrets({std::string(name) + "=x1"})), std::string(name) + "=...");
  }
}

TEST(HiddenSecrets, TakeNothingElseWithThem) {
  const std::vector<std::pair<Words, Words>> cases{
      {{"--token", "SECRET", "--epochs", "3"}, {"--token", "...", "--epochs", "3"}},
      {{"--use-auth-token", "--output-dir", "out"}, {"--use-auth-token", "--output-dir", "out"}},
      {{"--tokens", "A", "B", "--epochs", "3", "x"}, {"--tokens", "...", "...", "--epochs", "3", "x"}},
      {{"--use-auth-token", "true"}, {"--use-auth-token", "true"}},
      {{"--data", "https://u:p@h/x?a=1&token=SECRET&b=2"}, {"--data", "https://...@h/x?a=1&token=...&b=2"}},
      {{"--options", R"({"token": "SECRET", "top_k": 3})"}, {"--options", R"({"token": "...", "top_k": 3})"}},
      {{"--env=HF_TOKEN=SECRET", "x"}, {"--env=HF_TOKEN=...", "x"}},
      {{"--header", "Authorization: Bearer SECRET"}, {"--header", "Authorization: ..."}},
  };
  for (const auto& [words, want] : cases) EXPECT_EQ(joined(with_hidden_secrets(words)), joined(want));
}

TEST(HiddenSecrets, LeaveOtherWords) {
  const std::vector<Words> commands{
      {"lockstep", "train", "--task", "text-classification", "--model", "bert-tiny", "--tokenizer", "data/vocab"},
      {"--tokenizer-name=x", "--tokenizerName", "x", "TOKENIZERS_PARALLELISM=false"},
      {"--max-new-tokens", "3", "--max-tokens=5", "--maxTokens", "7", "--max_token", "9"},
      {"--average-tokens-across-devices", "true", "--include-num-input-tokens-seen", "--no-special-tokens"},
      {"--pad-token", "[PAD]", "--eos-token-id", "2"},
      {"--author", "me", "--keep-linebreaks", "true", "--keywords", "a,b", "--monkey", "x", "--bypass", "y"},
      {"--signal", "USR1", "--patience", "3", "--path", "a/b", "--passes", "2"},
      {"--train-file", "https://host/rows.csv?version=2", "--rdzv-endpoint", "host:29500", "tcp:10.0.0.1:29500"},
      {"--text-column", "the text", "it's", "", "-1", "--", "a@b", "user@host:path"},
      {"--output-dir", "out/hf_finetuned", "--model", "hf_models/bert", "sk-learn", "AKIA", "hf_x"},
      {"--lr-scheduler-kwargs", R"({"num_cycles": 2})", "--label-column=division", "OMP_NUM_THREADS=1"},
      {"the token is here", "a: b", "https://host/a@b"},
      {"--key-metric", "acc", "--sort-keys", "true", "--primary-key", "id", "--pin-memory", "2", "--session", "a"},
      {"--text-column", "token", "stars", "--label-column=password", "--user", "me", "-u", "--login", "https://host"},
      {"tcp://10.0.0.1:29500/x@2", "tcp://[::1]:29500/x@2", "host:/path@2", "./a:b@c", "https://host/bottles/1",
       "out/hf_bert2"},
  };
  for (const Words& words : commands) EXPECT_EQ(joined(with_hidden_secrets(words)), joined(words));
}

}  // namespace
}  // namespace lockstep
