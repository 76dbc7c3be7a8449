// Command kube_controller is examples/kube_controller once more, in Go with controller-runtime: it
// is here to be compared with the C++ one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

var podSetKind = schema.GroupVersionKind{
	Group: "examples.capstan.dev", Version: "v1", Kind: "PodSet",
}

// The owner's uid of a Pod, which the cache finds Pods by.
const ownerIndex = "owner"

type podSets struct {
	client.Client
	scheme *runtime.Scheme
}

func newPodSet() *unstructured.Unstructured {
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(podSetKind)
	return set
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func (s *podSets) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	set := newPodSet()
	if err := s.Get(ctx, request.NamespacedName, set); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// The garbage collector takes the Pods.
	if set.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, nil
	}
	replicas, _, err := unstructured.NestedInt64(set.Object, "spec", "replicas")
	if err != nil {
		return ctrl.Result{}, err
	}
	var owned corev1.PodList
	if err := s.List(ctx, &owned, client.InNamespace(set.GetNamespace()),
		client.MatchingFields{ownerIndex: string(set.GetUID())}); err != nil {
		return ctrl.Result{}, err
	}
	present := map[string]*corev1.Pod{}
	for i := range owned.Items {
		present[owned.Items[i].Name] = &owned.Items[i]
	}
	ready := int64(0)
	for i := int64(0); i < replicas; i++ {
		name := fmt.Sprintf("%s-%d", set.GetName(), i)
		pod, found := present[name]
		delete(present, name)
		if found {
			if isReady(pod) {
				ready++
			}
			continue
		}
		if err := s.create(ctx, set, name); err != nil {
			return ctrl.Result{}, err
		}
	}
	for _, pod := range present {
		if pod.DeletionTimestamp != nil {
			continue
		}
		uid := pod.UID
		err := s.Delete(ctx, pod, &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	told, _, _ := unstructured.NestedInt64(set.Object, "status", "ready")
	observed, found, _ := unstructured.NestedInt64(set.Object, "status", "observedGeneration")
	if found && told == ready && observed == set.GetGeneration() {
		return ctrl.Result{}, nil
	}
	status := map[string]interface{}{"ready": ready, "observedGeneration": set.GetGeneration()}
	if err := unstructured.SetNestedMap(set.Object, status, "status"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, s.Status().Update(ctx, set)
}

func (s *podSets) create(ctx context.Context, set *unstructured.Unstructured, name string) error {
	template, found, err := unstructured.NestedMap(set.Object, "spec", "template")
	if err != nil {
		return err
	}
	if !found {
		return errors.New("spec.template is missing")
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err != nil {
		return err
	}
	pod.Namespace, pod.Name = set.GetNamespace(), name
	if err := controllerutil.SetControllerReference(set, pod, s.scheme); err != nil {
		return err
	}
	// The cache may not have shown it yet: that it is there is as good.
	if err := s.Create(ctx, pod); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func run() error {
	ctrl.SetLogger(zap.New())
	ctx := ctrl.SetupSignalHandler()
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		// Else every read of an unstructured object goes to the server.
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	byOwner := func(object client.Object) []string {
		if owner := metav1.GetControllerOf(object); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	}
	if err := manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, ownerIndex, byOwner); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		Named("podset").
		For(newPodSet()).
		Owns(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(&podSets{Client: manager.GetClient(), scheme: scheme})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kube_controller:", err)
		os.Exit(1)
	}
}
