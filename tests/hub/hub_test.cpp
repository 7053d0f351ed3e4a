// Tests downloads from the Hugging Face Hub against tests/hub/hub_server.py, which behaves as it does, or worse.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/hub/model_download.h"
#include "tests/support/expect_error.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

bool runs(const char* command) { return std::system(command) == 0; }

std::string weights_text(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  return text;
}

class Hub : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runs("curl --version >/dev/null 2>&1")) GTEST_SKIP() << "no curl";
    if (!runs("python3 --version >/dev/null 2>&1")) GTEST_SKIP() << "no python3";
  }

  void add(const std::string& model, const std::string& name, const std::string& content) const {
    fs::create_directories(models_ / model);
    write_file_atomically(models_ / model + "/" + name, content);
  }
  void add_model(const std::string& model) const {
    add(model, "config.json", R"({"model_type":"bert"})");
    add(model, "vocab.txt", "[PAD]\n[UNK]\n");
    add(model, "model.safetensors", weights_text(5000));
    add(model, "README.md", "not needed");
    add(model, "pytorch_model.bin", "not needed");
    add(model, "tf_model.h5", "not needed");
  }

  HubSettings settings(const std::string& token = "") {
    if (!server_) {
      server_ = std::make_unique<RunningProgram>(std::vector<std::string>{
          "python3", std::string(LOCKSTEP_SOURCE_DIR) + "/tests/hub/hub_server.py", models_.path()});
      EXPECT_TRUE(server_->wait_for(".\n", Deadline::after(std::chrono::seconds(60)))) << server_->err();
    }
    HubSettings hub;
    const std::size_t begin = server_->out().find("port ") + 5;
    hub.endpoint = "http://127.0.0.1:" + server_->out().substr(begin, server_->out().find('.') - begin);
    hub.token = token;
    hub.token_source = "HF_TOKEN";
    hub.cache = models_ / "no-cache";
    return hub;
  }

  DownloadedModel get(const std::string& model, const HubSettings& hub, const std::string& revision = "main",
                      bool replaces = false) {
    ModelDownload download;
    download.id = model;
    download.revision = revision;
    download.folder = folder_ / "model";
    download.replaces_files = replaces;
    download.report = [this](const std::string& line) { report_ += line + "\n"; };
    download.accept = [this](const std::string& config) { config_ = config; };
    return download_model(download, hub);
  }
  DownloadedModel get(const std::string& model) { return get(model, settings()); }

  // The ranges that were asked for of a file, in order.
  std::string requests_for(const std::string& name) {
    EXPECT_THROW(get("the/last"), Error);  // the server prints each request before it answers
    EXPECT_TRUE(server_->wait_for("/the/last/", Deadline::after(std::chrono::seconds(60))));
    std::string lines;
    std::istringstream all(server_->out());
    for (std::string line; std::getline(all, line);) {
      if (line.find("/lfs/") != std::string::npos && line.find(name) != std::string::npos) {
        lines += line.substr(line.rfind(' ') + 1) + " ";
      }
    }
    return lines;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_ / "model")) all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }
  std::string content(const std::string& name) const { return read_file(folder_ / ("model/" + name)); }
  bool reported(const std::string& text) const { return report_.find(text) != std::string::npos; }

  TemporaryFolder models_;
  TemporaryFolder folder_;
  std::unique_ptr<RunningProgram> server_;
  std::string report_;
  std::string config_;
};

using Files = std::vector<std::string>;

// Without these files an encoder would pool in another way, in silence.
TEST_F(Hub, FetchesHowSentencesBecomeVectors) {
  add_model("sentences");
  add("sentences", "modules.json", "[]");
  fs::create_directories(models_ / "sentences/1_Pooling");
  add("sentences", "1_Pooling/config.json", R"({"pooling_mode_cls_token":true})");
  get("sentences");
  EXPECT_EQ(names(), (Files{"1_Pooling", "config.json", "model.safetensors", "modules.json", "vocab.txt"}));
  EXPECT_EQ(content("1_Pooling/config.json"), R"({"pooling_mode_cls_token":true})");
}

TEST_F(Hub, FetchesWhatIsNeededAndNothingElse) {
  add_model("owner/small");
  const DownloadedModel done = get("owner/small");
  EXPECT_EQ(names(), (Files{"config.json", "model.safetensors", "vocab.txt"}));
  EXPECT_EQ(content("model.safetensors"), weights_text(5000));
  EXPECT_EQ(done.commit, kCommit);
  EXPECT_EQ(done.files, 3);
  EXPECT_FALSE(done.is_pickled);
  EXPECT_EQ(config_, folder_ / "model/config.json");
  EXPECT_TRUE(reported("model.safetensors: downloaded, 5.0 kB, SHA-256 as on the Hub")) << report_;
  report_.clear();
  get("owner/small");
  EXPECT_TRUE(reported("model.safetensors: already there")) << report_;
  EXPECT_FALSE(reported("downloaded")) << report_;
}

TEST_F(Hub, FetchesTheShardsThatTheIndexNames) {
  add("sharded", "config.json", "{}");
  add("sharded", "model.safetensors.index.json",
      R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  add("sharded", "model-00001-of-00002.safetensors", weights_text(3000));
  add("sharded", "model-00002-of-00002.safetensors", weights_text(10));
  add("sharded", "model-00003-of-00002.safetensors", "of an older index");
  get("sharded");
  EXPECT_EQ(names(), (Files{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                            "model.safetensors.index.json"}));
}

TEST_F(Hub, TakesPickledWeightsOnlyWhereThereAreNoOthers) {
  add("old", "config.json", "{}");
  add("old", "pytorch_model.bin", weights_text(100));
  EXPECT_TRUE(get("old").is_pickled);
  add("none", "config.json", "{}");
  expect_error("none has no weights that PyTorch saved", [&] { get("none"); });
  add("bare", "model.safetensors", "x");
  expect_error("bare has no config.json", [&] { get("bare"); });
}

TEST_F(Hub, ContinuesATransferThatBreaks) {
  add_model("breaks");
  get("breaks");
  EXPECT_EQ(content("model.safetensors"), weights_text(5000));
  EXPECT_EQ(requests_for("model.safetensors"), "- bytes=1000- bytes=2000- bytes=3000- bytes=4000- ");
}

TEST_F(Hub, StartsOverIfTheServerKnowsNoRanges) {
  add_model("whole");
  get("whole");
  EXPECT_EQ(content("model.safetensors"), weights_text(5000));
  EXPECT_EQ(requests_for("model.safetensors"), "- bytes=1000- - ");
}

TEST_F(Hub, ContinuesWhatAnEarlierProcessLeft) {
  add_model("small");
  const std::string part = ".model.safetensors." + sha256_hex(weights_text(5000)).substr(0, 16) + ".part";
  fs::create_directories(folder_ / "model");
  write_file_atomically(folder_ / ("model/" + part), weights_text(3000));
  get("small");
  EXPECT_EQ(content("model.safetensors"), weights_text(5000));
  EXPECT_EQ(requests_for("model.safetensors"), "bytes=3000- ");

  fs::remove(folder_ / "model/model.safetensors");
  write_file_atomically(folder_ / ("model/" + part), std::string(3000, '\0'));  // as after a crash of the host
  get("small");
  EXPECT_EQ(content("model.safetensors"), weights_text(5000));
  EXPECT_EQ(names(), (Files{"config.json", "model.safetensors", "vocab.txt"}));
}

TEST_F(Hub, KeepsNothingThatIsNotTheHubs) {
  add_model("changed");
  expect_error("model.safetensors differs from the file on the Hub: its SHA-256 is ", [&] {
    add("changed", "vocab.txt", std::string(12, '\0'));
    get("changed");
  });
  EXPECT_FALSE(fs::exists(folder_ / "model/model.safetensors"));
  fs::remove(folder_ / "model/vocab.txt");
  add_model("longer");
  expect_error("more than the 12 bytes of vocab.txt arrived", [&] { get("longer"); });
  EXPECT_FALSE(fs::exists(folder_ / "model/vocab.txt"));
}

TEST_F(Hub, ReplacesAFileOfTheSameNameOnlyIfTold) {
  add_model("small");
  fs::create_directories(folder_ / "model");
  write_file_atomically(folder_ / "model/model.safetensors", "trained for a week");
  expect_error(
      "the file model.safetensors exists and differs from the one of small: it has 18 bytes, but 5000 on the Hub",
      [&] { get("small"); });
  EXPECT_EQ(content("model.safetensors"), "trained for a week");
  get("small", settings(), "main", true);
  EXPECT_EQ(content("model.safetensors"), weights_text(5000));
}

TEST_F(Hub, LooksForRoomBeforeItFetches) {
  add_model("vast");
  expect_error("30000.0 GB of vast are still to be downloaded, but the disk has only ", [&] { get("vast"); });
}

TEST_F(Hub, SaysInWordsWhyItGotNothing) {
  add_model("small");
  add_model("gated");
  add_model("private");
  add_model("busy");
  add_model("strange");
  expect_error("has no public model abscent", [&] { get("abscent"); });
  expect_error("if the model is private or gated, put an access token", [&] { get("abscent"); });
  expect_error("nor one that the token in HF_TOKEN may read", [&] { get("abscent", settings("hf_good")); });
  expect_error("small has no revision \"v9\"", [&] { get("small", settings(), "v9"); });
  expect_error("gated is gated: its owner gives it to users who accept the terms", [&] { get("gated"); });
  expect_error("gated is gated, and the owner of the token in HF_TOKEN may not read it",
               [&] { get("gated", settings("hf_bad")); });
  expect_error("has no public model private", [&] { get("private"); });
  expect_error("fewer requests (HTTP 429)", [&] { get("busy"); });
  expect_error("the answer is not from the Hub", [&] { get("strange"); });
  HubSettings nowhere = settings();
  nowhere.endpoint = "http://127.0.0.1:9";
  expect_error("curl: (7)", [&] { get("small", nowhere); });
  for (const char* id : {"../etc", "a/b/c", "a--b", "a b", "", "/x", "x.git", "a\033[2J"}) {
    expect_error("is not a model's name on the Hub", [&] { get(id); });
  }
}

TEST_F(Hub, SendsTheTokenToTheHubAlone) {
  add_model("private");
  get("private", settings("hf_good"));  // the server refuses a token at the second host
  EXPECT_EQ(content("model.safetensors"), weights_text(5000));
}

TEST_F(Hub, TakesARevisionWithSlashes) {
  add_model("small");
  EXPECT_EQ(get("small", settings(), "refs/pr/1").commit, kCommit);
}

TEST_F(Hub, IsOnePerFolderAtATime) {
  add_model("small");
  fs::create_directories(folder_ / "model");
  const std::string part =
      folder_ / ("model/.model.safetensors." + sha256_hex(weights_text(5000)).substr(0, 16) + ".part");
  const UniqueFd other(::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  expect_error("another process is downloading this file", [&] { get("small"); });
}

class HubCache : public Hub {
 protected:
  // The layout of huggingface_hub: content under its sum, and a link to it for each file of a commit.
  HubSettings cached(const std::string& model) {
    HubSettings hub = settings();
    hub.cache = folder_ / "cache";
    const std::string base = hub.cache + "/models--owner--" + model;
    fs::create_directories(base + "/blobs");
    fs::create_directories(base + "/refs");
    fs::create_directories(base + "/snapshots/" + kCommit);
    write_file_atomically(base + "/refs/main", kCommit);
    const std::string sum = sha256_hex(weights_text(5000));
    write_file_atomically(base + "/blobs/" + sum, weights_text(5000));
    fs::create_symlink("../../blobs/" + sum, base + "/snapshots/" + kCommit + "/model.safetensors");
    blob_ = base + "/blobs/" + sum;
    write_file_atomically(base + "/snapshots/" + kCommit + "/config.json", "{}");
    return hub;
  }
  std::string blob_;
};

TEST_F(HubCache, GivesWhatPythonHasFetched) {
  add_model("owner/small");
  HubSettings hub = cached("small");
  get("owner/small", hub);
  EXPECT_TRUE(reported("model.safetensors: from the cache")) << report_;
  EXPECT_TRUE(reported("config.json: downloaded")) << report_;  // the cache has another content
  EXPECT_EQ(requests_for("model.safetensors"), "");
}

TEST_F(HubCache, ServesWithoutANetwork) {
  HubSettings hub = cached("small");
  hub.is_offline = true;
  hub.endpoint = "http://127.0.0.1:9";
  EXPECT_EQ(get("owner/small", hub).commit, kCommit);
  EXPECT_EQ(content("model.safetensors"), weights_text(5000));
  expect_error("the cache has no owner/other at revision main", [&] { get("owner/other", hub); });
  fs::remove_all(folder_ / "model");
  write_file_atomically(blob_, std::string(5000, 'x'));
  expect_error("the cached file is damaged", [&] { get("owner/small", hub); });
}

// Sets variables for one test.
class HubVariables : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::optional<std::string>() : value);
      ::unsetenv(name);
    }
    set("HOME", home_.path());
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

  TemporaryFolder home_;

 private:
  static constexpr const char* kNames[] = {"HF_ENDPOINT",
                                           "HF_TOKEN",
                                           "HUGGING_FACE_HUB_TOKEN",
                                           "HF_TOKEN_PATH",
                                           "HF_HOME",
                                           "HF_HUB_CACHE",
                                           "HUGGINGFACE_HUB_CACHE",
                                           "XDG_CACHE_HOME",
                                           "HF_HUB_OFFLINE",
                                           "TRANSFORMERS_OFFLINE",
                                           "HF_HUB_DISABLE_IMPLICIT_TOKEN",
                                           "HOME"};
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

TEST_F(HubVariables, AreThoseOfHuggingFace) {
  HubSettings hub = HubSettings::from_environment();
  EXPECT_EQ(hub.endpoint, "https://huggingface.co");
  EXPECT_EQ(hub.token, "");
  EXPECT_EQ(hub.cache, home_ / ".cache/huggingface/hub");
  EXPECT_FALSE(hub.is_offline);

  set("XDG_CACHE_HOME", home_ / "xdg");
  fs::create_directories(home_ / "xdg/huggingface");
  write_file_atomically(home_ / "xdg/huggingface/token", "hf_file\n");
  hub = HubSettings::from_environment();
  EXPECT_EQ(hub.token, "hf_file");
  EXPECT_EQ(hub.token_source, home_ / "xdg/huggingface/token");
  set("HF_TOKEN_PATH", "~/elsewhere");
  EXPECT_EQ(HubSettings::from_environment().token, "");
  set("HUGGING_FACE_HUB_TOKEN", "hf_old");
  EXPECT_EQ(HubSettings::from_environment().token, "hf_old");
  set("HF_TOKEN", " hf_new\r\n");
  set("HF_HOME", "~/hf");
  set("HF_ENDPOINT", "https://mirror.example/");
  set("TRANSFORMERS_OFFLINE", "yes");
  hub = HubSettings::from_environment();
  EXPECT_EQ(hub.token, "hf_new");
  EXPECT_EQ(hub.token_source, "HF_TOKEN");
  EXPECT_EQ(hub.endpoint, "https://mirror.example");
  EXPECT_EQ(hub.cache, home_ / "hf/hub");
  EXPECT_TRUE(hub.is_offline);
  set("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  EXPECT_EQ(HubSettings::from_environment().token, "");
}

TEST_F(HubVariables, AreRefusedIfTheyMakeNoSense) {
  set("HF_ENDPOINT", "ftp://mirror");
  expect_error("is not an address of a Hub", [] { HubSettings::from_environment(); });
  ::unsetenv("HF_ENDPOINT");
  set("HF_TOKEN", "hf_x\nX-Evil: 1");
  expect_error("characters that a token cannot have", [] { HubSettings::from_environment(); });
}

}  // namespace
}  // namespace lockstep
