// A stand-in for a kubelet: serves exec, attach, port-forward and logs to an API server with the
// streaming code that kubelets and container runtimes serve them with, and runs the commands as
// processes of its own. Its containers are those that -main names. For tests.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	idleTimeout     = 4 * time.Hour
	creationTimeout = 30 * time.Second
)

// What a process ended with, as container runtimes say it: 128 and the signal that killed it.
func exitError(err error) error {
	ended, ok := err.(*exec.ExitError)
	if !ok {
		return err
	}
	code := ended.ExitCode()
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return utilexec.CodeExitError{Err: err, Code: code}
}

type streams struct{ containers map[string]*container }

func (s *streams) ExecInContainer(_ context.Context, _, _, _ string, arguments []string, in io.Reader,
	out, errors io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize,
	_ time.Duration) error {
	command := exec.Command(arguments[0], arguments[1:]...)
	if tty {
		terminal, err := pty.Start(command)
		if err != nil {
			return err
		}
		defer terminal.Close()
		go func() {
			for size := range resize {
				_ = pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
			}
		}()
		if in != nil {
			go io.Copy(terminal, in)
		}
		// Ends with an error once the last who has the terminal open is gone.
		_, _ = io.Copy(out, terminal)
		return exitError(command.Wait())
	}
	if in != nil {
		// Not command.Stdin: Wait would wait for a client that says nothing.
		pipe, err := command.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(pipe, in)
			pipe.Close()
		}()
	}
	if out != nil {
		command.Stdout = out
	}
	if errors != nil {
		command.Stderr = errors
	}
	return exitError(command.Run())
}

func (s *streams) AttachContainer(_ context.Context, _, _, name string, in io.Reader,
	out, errors io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	container := s.containers[name]
	if container == nil {
		return fmt.Errorf("there is no container %s", name)
	}
	return container.attach(in, out, errors)
}

func (s *streams) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, connection)
	return err
}

// `/verb/namespace/pod[/container]`
func part(path string, index int) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if index >= len(parts) {
		return ""
	}
	return parts[index]
}

func isSet(request *http.Request, name string) bool {
	value := request.URL.Query().Get(name)
	return value == "1" || value == "true"
}

func optionsOf(request *http.Request) *remotecommand.Options {
	return &remotecommand.Options{Stdin: isSet(request, "input"), Stdout: isSet(request, "output"),
		Stderr: isSet(request, "error") && !isSet(request, "tty"), TTY: isSet(request, "tty")}
}

func (s *streams) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/", func(w http.ResponseWriter, r *http.Request) {
		remotecommand.ServeExec(w, r, s, part(r.URL.Path, 2), "", part(r.URL.Path, 3),
			r.URL.Query()["command"], optionsOf(r), idleTimeout, creationTimeout,
			remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("/attach/", func(w http.ResponseWriter, r *http.Request) {
		remotecommand.ServeAttach(w, r, s, part(r.URL.Path, 2), "", part(r.URL.Path, 3), optionsOf(r),
			idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("/portForward/", func(w http.ResponseWriter, r *http.Request) {
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, s, part(r.URL.Path, 2), "", options, idleTimeout,
			creationTimeout, portforward.SupportedProtocols)
	})
	mux.HandleFunc("/containerLogs/", func(w http.ResponseWriter, r *http.Request) {
		container := s.containers[part(r.URL.Path, 3)]
		if container == nil {
			http.Error(w, "there is no such container", http.StatusNotFound)
			return
		}
		container.serveLog(w, r.URL.Query().Get("follow") == "true")
	})
	return mux
}

// By systemd's protocol.
func tellReady() {
	connection, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return
	}
	defer connection.Close()
	_, _ = connection.Write([]byte("READY=1"))
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	certificate := flag.String("certificate", "", "PEM, of this server")
	key := flag.String("key", "", "PEM, of this server")
	clientCA := flag.String("client-ca", "", "PEM, of who may ask")
	logs := flag.String("logs", "", "folder of the containers' logs")
	streams := &streams{containers: map[string]*container{}}
	flag.Func("main", "name=command of a container, for sh", func(value string) error {
		name, command, found := strings.Cut(value, "=")
		if !found {
			return fmt.Errorf("want name=command")
		}
		streams.containers[name] = &container{name: name, command: command}
		return nil
	})
	flag.Parse()
	for _, container := range streams.containers {
		if err := container.start(*logs); err != nil {
			log.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(*clientCA)
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		log.Fatalf("no authority of clients in %q: %v", *clientCA, err)
	}
	server := http.Server{Handler: streams.handler(), TLSConfig: &tls.Config{
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
		// Upgrades are of HTTP/1.1.
		NextProtos: []string{"http/1.1"}}}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	tellReady()
	log.Fatal(server.ServeTLS(listener, *certificate, *key))
}
