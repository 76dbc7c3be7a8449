// A workload as its authors write it: go-spiffe, the official client, and nothing of Capstan. For
// tests of the Workload API; SPIFFE_ENDPOINT_SOCKET says where that is.
//
// usage: go_spiffe watch COUNT           X.509-SVIDs, one line for each update, COUNT of them
//
//	go_spiffe jwt AUDIENCE [ID]     JWT-SVIDs, verified by the bundles that the API gives
//	go_spiffe dial ADDRESS ID       a mutual TLS handshake with the server of that SPIFFE id
//
// Lines on standard output: `svid ID SERIAL`, `jwt ID HINT TOKEN`, `valid ID`, `peer ID`, and
// `error CODE`, by gRPC's names, after which it ends.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const patience = 60 * time.Second

func fail(err error) {
	if _, ok := status.FromError(err); ok {
		fmt.Println("error", status.Code(err))
	} else {
		fmt.Println("error", err)
	}
	os.Exit(1)
}

type watcher struct {
	updates chan *workloadapi.X509Context
}

func (w *watcher) OnX509ContextUpdate(update *workloadapi.X509Context) { w.updates <- update }

func (w *watcher) OnX509ContextWatchError(err error) {
	if status.Code(err) == codes.Canceled {
		// By ourselves, at the end.
		return
	}
	fmt.Println("error", status.Code(err))
	// The library would go on trying.
	if status.Code(err) == codes.PermissionDenied {
		os.Exit(1)
	}
}

func watch(ctx context.Context, client *workloadapi.Client, count int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &watcher{updates: make(chan *workloadapi.X509Context, 16)}
	ended := make(chan error, 1)
	go func() { ended <- client.WatchX509Context(ctx, w) }()
	for i := 0; i < count; i++ {
		select {
		case update := <-w.updates:
			svid := update.DefaultSVID()
			fmt.Printf("svid %s %x\n", svid.ID, svid.Certificates[0].SerialNumber)
		case err := <-ended:
			fail(err)
		}
	}
}

func fetchJWT(ctx context.Context, client *workloadapi.Client, audience string, ids []string) {
	params := jwtsvid.Params{Audience: audience}
	if len(ids) > 0 {
		params.Subject = spiffeid.RequireFromString(ids[0])
	}
	svids, err := client.FetchJWTSVIDs(ctx, params)
	if err != nil {
		fail(err)
	}
	var bundles *jwtbundle.Set
	if bundles, err = client.FetchJWTBundles(ctx); err != nil {
		fail(err)
	}
	for _, svid := range svids {
		fmt.Println("jwt", svid.ID, svid.Hint, svid.Marshal())
		verified, err := jwtsvid.ParseAndValidate(svid.Marshal(), bundles, []string{audience})
		if err != nil {
			fail(err)
		}
		again, err := client.ValidateJWTSVID(ctx, svid.Marshal(), audience)
		if err != nil {
			fail(err)
		}
		if verified.ID == again.ID {
			fmt.Println("valid", verified.ID)
		}
	}
	if _, err := client.ValidateJWTSVID(ctx, svids[0].Marshal(), audience+"-not"); err != nil {
		fmt.Println("refused", status.Code(err))
	}
}

func dial(ctx context.Context, address, id string) {
	source, err := workloadapi.NewX509Source(ctx)
	if err != nil {
		fail(err)
	}
	defer source.Close()
	config := tlsconfig.MTLSClientConfig(source, source,
		tlsconfig.AuthorizeID(spiffeid.RequireFromString(id)))
	// Of gRPC.
	config.NextProtos = []string{"h2"}
	dialer := tls.Dialer{Config: config}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		fail(err)
	}
	defer connection.Close()
	// HTTP/2's preface and empty SETTINGS: only a server that has taken our certificate answers.
	if _, err = connection.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		fail(err)
	}
	answer := make([]byte, 9)
	if _, err = connection.Read(answer); err != nil {
		fail(err)
	}
	state := connection.(*tls.Conn).ConnectionState()
	fmt.Println("peer", state.PeerCertificates[0].URIs[0])
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := workloadapi.New(ctx)
	if err != nil {
		fail(err)
	}
	defer client.Close()
	switch arguments := os.Args[1:]; {
	case len(arguments) == 2 && arguments[0] == "watch":
		count, err := strconv.Atoi(arguments[1])
		if err != nil {
			fail(err)
		}
		watch(ctx, client, count)
	case len(arguments) >= 2 && arguments[0] == "jwt":
		fetchJWT(ctx, client, arguments[1], arguments[2:])
	case len(arguments) == 3 && arguments[0] == "dial":
		dial(ctx, arguments[1], arguments[2])
	default:
		fmt.Println("error usage")
		os.Exit(2)
	}
}
