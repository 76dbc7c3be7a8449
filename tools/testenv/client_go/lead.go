package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Competes for a Lease until SIGTERM, which has it released. Prints a line for what happens: `leads`,
// `lost`, `leader NAME`.
func lead(client kubernetes.Interface, args []string) error {
	var times [3]time.Duration
	for i := range times {
		var err error
		if times[i], err = time.ParseDuration(args[3+i]); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config := leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: args[0], Name: args[1]},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: args[2]},
		},
		LeaseDuration:   times[0],
		RenewDeadline:   times[1],
		RetryPeriod:     times[2],
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("leads") },
			OnStoppedLeading: func() { fmt.Println("lost") },
			OnNewLeader:      func(name string) { fmt.Println("leader", name) },
		},
	}
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(config)
		if err != nil {
			return err
		}
		elector.Run(ctx)
	}
	fmt.Fprintln(os.Stderr, "client_go: ended")
	return nil
}
