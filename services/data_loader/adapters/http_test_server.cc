#include "services/data_loader/adapters/http_test_server.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/write.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http/read.hpp"
#include "boost/beast/http/string_body.hpp"

namespace capstan::data_loader {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

}  // namespace

struct HttpTestServer::Parts {
  Parts(Handler h, bool c)
      : handler(std::move(h)),
        concurrent(c),
        acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {}

  void Serve() {
    while (true) {
      boost::system::error_code error;
      tcp::socket socket(context);
      acceptor.accept(socket, error);
      if (stopping) return;
      if (error) continue;
      if (concurrent) {
        connections.emplace_back([this, taken = std::move(socket)]() mutable { Hear(taken); });
      } else {
        Hear(socket);
      }
    }
  }

  void Hear(tcp::socket& socket) const {
    boost::system::error_code error;
    boost::beast::flat_buffer buffer;
    http::request<http::string_body> request;
    http::read(socket, buffer, request, error);
    if (error) return;
    {
      TestRequest asked;
      asked.target = std::string(request.target());
      for (const auto& field : request) {
        asked.headers[absl::AsciiStrToLower(absl::string_view(
            field.name_string().data(), field.name_string().size()))] = std::string(field.value());
      }
      Answer(socket, handler(asked));
    }
  }

  static void Answer(tcp::socket& socket, const TestReply& reply) {
    std::string text = absl::StrCat("HTTP/1.1 ", reply.status, " Test\r\nConnection: close\r\n");
    for (const auto& [name, value] : reply.headers) {
      absl::StrAppend(&text, name, ": ", value, "\r\n");
    }
    if (reply.content_length != -1 && reply.headers.count("Content-Length") == 0) {
      absl::StrAppend(&text, "Content-Length: ",
                      reply.content_length >= 0 ? static_cast<uint64_t>(reply.content_length)
                                                : reply.body.size(),
                      "\r\n");
    }
    absl::StrAppend(&text, "\r\n",
                    reply.cut_after < 0
                        ? reply.body
                        : reply.body.substr(0, static_cast<size_t>(reply.cut_after)));
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(text), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
    // Until the client closes, or what it has not read would be lost.
    char rest[256];
    while (!ignored && socket.read_some(asio::buffer(rest), ignored) > 0) {
    }
  }

  const Handler handler;
  const bool concurrent;
  asio::io_context context;
  tcp::acceptor acceptor;
  std::atomic<bool> stopping = false;
  // Of the thread below until it has ended.
  std::vector<std::thread> connections;
  std::thread thread;
};

HttpTestServer::HttpTestServer(Handler handler, bool concurrent)
    : parts_(std::make_unique<Parts>(std::move(handler), concurrent)) {
  parts_->thread = std::thread([parts = parts_.get()] { parts->Serve(); });
}

HttpTestServer::~HttpTestServer() {
  parts_->stopping = true;
  // Wakes the acceptor.
  boost::system::error_code ignored;
  tcp::socket socket(parts_->context);
  socket.connect(parts_->acceptor.local_endpoint(), ignored);
  parts_->thread.join();
  for (std::thread& connection : parts_->connections) connection.join();
}

int HttpTestServer::port() const { return parts_->acceptor.local_endpoint().port(); }

std::string HttpTestServer::url() const { return absl::StrCat("http://127.0.0.1:", port()); }

void TestObjects::Put(const std::string& path, const std::string& bytes) {
  objects_[path] = {bytes, ++revisions_};
}

void TestObjects::Remove(const std::string& path) { objects_.erase(path); }

TestReply TestObjects::Serve(const TestRequest& request) const {
  TestReply reply;
  const auto found = objects_.find(request.target);
  if (found == objects_.end()) {
    reply.status = 404;
    return reply;
  }
  const std::string& bytes = found->second.bytes;
  const std::string etag = absl::StrCat("\"", found->second.revision, "\"");
  reply.headers["ETag"] = etag;
  const auto match = request.headers.find("if-match");
  if (match != request.headers.end() && match->second != etag) {
    reply.status = 412;
    return reply;
  }
  const auto range = request.headers.find("range");
  if (range == request.headers.end()) {
    reply.body = bytes;
    return reply;
  }
  const std::vector<std::string> ends =
      absl::StrSplit(absl::StripPrefix(range->second, "bytes="), '-');
  size_t first = 0;
  size_t last = 0;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first) || !absl::SimpleAtoi(ends[1], &last) ||
      first >= bytes.size()) {
    reply.status = 416;
    reply.headers["Content-Range"] = absl::StrCat("bytes */", bytes.size());
    return reply;
  }
  last = std::min(last, bytes.size() - 1);
  reply.status = 206;
  reply.body = bytes.substr(first, last - first + 1);
  reply.headers["Content-Range"] = absl::StrCat("bytes ", first, "-", last, "/", bytes.size());
  return reply;
}

}  // namespace capstan::data_loader
